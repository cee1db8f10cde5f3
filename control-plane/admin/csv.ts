import { escapeCommanding } from '@semblance/common/plain-text';

/**
 * Where a spreadsheet would begin a formula: at the start of a text, and after what it may take for the end of a cell,
 * which depends on its language (OWASP, "CSV Injection").
 */
const FORMULA = /(^|[;|\t\r\n])(?=[\s'"]*[=+\-@＝＋－＠])/g;

/**
 * Returns a value as a cell of CSV (RFC 4180). Text that a spreadsheet would take for a formula gets an apostrophe before
 * it; numbers stay numbers. What is neither text nor number is JSON, and nothing is an empty cell.
 */
export function csvCell(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean')
    return String(value);
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const safe = escapeCommanding(text.replace(FORMULA, "$1'"));
  return /[",;|\t\r\n]|^\s|\s$/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Returns a line of CSV without its end. */
export function csvLine(values: readonly unknown[]): string {
  return values.map(csvCell).join(',');
}
