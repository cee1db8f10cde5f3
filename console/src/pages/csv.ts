import type { UsageEntry } from '../api/types.ts';

const COLUMNS = ['created_at', 'id', 'feature', 'status', 'charged_usd', 'reason'] as const;

/** Returns calls as CSV (RFC 4180). A text that a spreadsheet would compute is quoted with an apostrophe. */
export function csvOf(entries: readonly UsageEntry[]): string {
  const field = (value: string | number | null) => {
    const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value ?? '');
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = entries.map((entry) => COLUMNS.map((name) => field(entry[name])).join(','));
  return `${[COLUMNS.join(','), ...lines].join('\r\n')}\r\n`;
}

/** Has the browser save a text as a file. */
export function save(name: string, text: string, type = 'text/csv'): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
