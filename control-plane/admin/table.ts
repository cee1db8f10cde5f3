import { escapeCommanding } from '@semblance/common/plain-text';

type Row = Readonly<Record<string, unknown>>;

/** Space between two columns. */
const GAP = '  ';

/** Returns rows as a table with a line of headings; numbers are set to the right. */
export function tableOf(rows: readonly Row[], columns: readonly string[]): string {
  if (rows.length === 0) return 'none\n';
  const cells = rows.map((row) => columns.map((name) => cellOf(row[name])));
  const right = columns.map((name) =>
    rows.every((row) => typeof row[name] === 'number' || isNothing(row[name])),
  );
  const widths = columns.map((name, i) =>
    Math.max(lengthOf(name), ...cells.map((row) => lengthOf(row[i] ?? ''))),
  );
  const line = (row: readonly string[]) =>
    row
      .map((cell, i) => {
        const room = ' '.repeat(Math.max(0, (widths[i] ?? 0) - lengthOf(cell)));
        return right[i] ? room + cell : cell + room;
      })
      .join(GAP)
      .trimEnd();
  return [columns, ...cells].map((row) => `${line(row)}\n`).join('');
}

/** Returns a value as people read it in one line. */
export function cellOf(value: unknown): string {
  if (isNothing(value)) return '-';
  return escapeCommanding(typeof value === 'object' ? JSON.stringify(value) : String(value));
}

const isNothing = (value: unknown) => value === null || value === undefined || value === '';

/** Characters, as a terminal counts them as long as none is wide. */
function lengthOf(text: string): number {
  return [...text].length;
}
