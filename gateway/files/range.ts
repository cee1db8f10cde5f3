export interface ByteRange {
  /** First and last byte, both included. */
  readonly start: number;
  readonly end: number;
}

/**
 * Parses the Range header of a request for an object (RFC 9110, 14.2).
 * @returns the one range to send; `unsatisfiable` (416); or undefined: send everything (no header, another unit,
 * malformed, or several ranges, which a server may answer with the whole)
 */
export function parseRange(
  header: string | undefined,
  sizeBytes: number,
): ByteRange | 'unsatisfiable' | undefined {
  const match = /^bytes=\s*(\d*)\s*-\s*(\d*)\s*$/i.exec(header ?? '');
  if (!match) return undefined;
  const [, from = '', to = ''] = match;
  if (from === '') {
    if (to === '') return undefined;
    const suffix = Number(to);
    if (suffix === 0 || sizeBytes === 0) return 'unsatisfiable';
    return { start: Math.max(0, sizeBytes - suffix), end: sizeBytes - 1 };
  }
  const start = Number(from);
  const end = to === '' ? sizeBytes - 1 : Number(to);
  if (to !== '' && end < start) return undefined;
  if (start >= sizeBytes) return 'unsatisfiable';
  return { start, end: Math.min(end, sizeBytes - 1) };
}

/** The state of an object for conditional requests. */
export interface Validators {
  /** Strong entity tag, with its quotes. */
  readonly etag: string;
  readonly lastModified: Date;
}

/** Returns whether `If-Range` allows the range: the validator must match strongly (RFC 9110, 13.1.5). */
export function ifRangeHolds(header: string | undefined, current: Validators): boolean {
  if (header === undefined) return true;
  const text = header.trim();
  if (text.startsWith('"')) return text === current.etag;
  if (text.startsWith('W/')) return false;
  // Compared as text, because parsing accepts other texts for the same moment.
  return text === current.lastModified.toUTCString();
}

/** Returns whether the client's copy is current (304), by `If-None-Match`, otherwise by `If-Modified-Since`. */
export function isNotModified(
  headers: { 'if-none-match'?: string; 'if-modified-since'?: string },
  current: Validators,
): boolean {
  const match = headers['if-none-match'];
  if (match !== undefined)
    return (
      match.trim() === '*' || match.split(',').some((tag) => tag.trim().replace(/^W\//, '') === current.etag)
    );
  const since = headers['if-modified-since'];
  return since !== undefined && Date.parse(since) >= wholeSeconds(current.lastModified);
}

/** Rounds down to whole seconds, because HTTP dates have no milliseconds. */
function wholeSeconds(date: Date): number {
  return Math.floor(date.getTime() / 1000) * 1000;
}
