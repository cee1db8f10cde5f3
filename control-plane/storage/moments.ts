/** Moments with a four-digit year; nothing stored lies beyond them. */
const EARLIEST = BigInt(Date.parse('0001-01-01T00:00:00Z')) * 1000n;
const LATEST = BigInt(Date.parse('9999-12-31T00:00:00Z')) * 1000n;

/**
 * Returns a moment in microseconds since 1970, UTC, in Postgres's form; one far from the present as `-infinity` or
 * `infinity`.
 */
export function timestampOf(micros: bigint): string {
  if (micros < EARLIEST) return '-infinity';
  if (micros > LATEST) return 'infinity';
  const ofSecond = ((micros % 1_000_000n) + 1_000_000n) % 1_000_000n;
  const seconds = new Date(Number((micros - ofSecond) / 1000n)).toISOString().slice(0, 19);
  return `${seconds}.${ofSecond.toString().padStart(6, '0')}Z`;
}
