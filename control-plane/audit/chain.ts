import { createHash } from 'node:crypto';
import { isPlainText } from '@semblance/common/plain-text';
import { csvLine } from '../admin/csv.ts';

/** The audit is not what was written: an entry was changed, removed, added or moved. */
export class BrokenChainError extends Error {
  override readonly name = 'BrokenChainError';
  readonly code = 'audit_broken';
  readonly retryable = false;
}

/** A place in the chain. */
export interface Link {
  readonly seq: number;
  /** SHA-256 in hexadecimal. */
  readonly hash: string;
}

/** The place before the first entry. */
export const START: Link = { seq: 0, hash: '0'.repeat(64) };

const HASH = /, "hash" : "([0-9a-f]{64})"\}$/;

/**
 * Checks one exported line against the entry before it.
 * @param before undefined: the line is the first that is known, and its entry before is taken as it says
 * @returns its place in the chain
 * @throws BrokenChainError
 */
export function checkLine(line: string, before: Link | undefined): Link {
  const written = unescaped(line);
  const hash = HASH.exec(written)?.[1];
  const entry = parsed(written);
  const seq = entry?.seq;
  if (hash === undefined || typeof seq !== 'number' || !Number.isSafeInteger(seq))
    throw new BrokenChainError(
      `${before ? `what follows entry ${before.seq}` : 'the first line'} is no entry`,
    );
  const own = createHash('sha256')
    .update(`${written.replace(HASH, '')}}`)
    .digest('hex');
  if (own !== hash) throw new BrokenChainError(`entry ${seq} was changed: its hash is of other content`);
  if (before && (seq !== before.seq + 1 || entry?.previous !== before.hash))
    throw new BrokenChainError(
      `entry ${seq} does not follow entry ${before.seq}: something between was changed`,
    );
  return { seq, hash };
}

function parsed(line: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Takes back the escapes of the admin command, which prints no characters that control a terminal. PostgreSQL escapes
 * the first 32 characters alone, so every other escape of such a character is one of the command.
 */
function unescaped(line: string): string {
  return line.replace(/\\(?:u([0-9a-f]{4})|.)/g, (written, hex: string | undefined) => {
    const code = hex === undefined ? 0 : Number.parseInt(hex, 16);
    const character = String.fromCharCode(code);
    return code >= 0x20 && !isPlainText(character) ? character : written;
  });
}

/** Columns of the audit as CSV. */
const COLUMNS = [
  ...[
    'seq',
    'at',
    'actor',
    'role',
    'token_id',
    'stated',
    'action',
    'account_id',
    'subject',
    'before',
    'after',
  ],
  ...['request_id', 'previous', 'hash'],
];

export const CSV_HEAD = COLUMNS.join(',');

/** Returns an exported line as a line of CSV. */
export function csvOf(line: string): string {
  const entry = JSON.parse(line) as Record<string, unknown>;
  return csvLine(COLUMNS.map((name) => entry[name]));
}
