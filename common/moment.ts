/** A date, or a date and a time of day with its zone, as ISO 8601 has them. */
export const MOMENT_PATTERN =
  /^(\d{4})-(\d{2})-(\d{2})(?:[Tt](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?(?:([Zz])|([+-])(\d{2}):?(\d{2})?))?$/;

/** States what a moment must be, to be put after a field's name. */
export const MOMENT_RULE =
  'must be a date (2026-01-31) or an ISO 8601 time with its zone (2026-01-31T09:30:00Z)';

/**
 * A moment in microseconds since 1970, UTC; a date is its first moment in UTC. A part of a microsecond counts as a
 * whole one, which leaves every comparison with a whole number of them as it was.
 * @returns undefined for text that is no such moment, or is of a day that no calendar has
 */
export function parseMoment(text: string): bigint | undefined {
  const match = MOMENT_PATTERN.exec(text);
  if (!match) return undefined;
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = ''] = match;
  const [, , , , , , , , , sign, zoneHour = '0', zoneMinute = '0'] = match;
  const [h, m, s, zh, zm] = [hour, minute, second, zoneHour, zoneMinute].map(Number) as [
    number,
    number,
    number,
    number,
    number,
  ];
  if (h > 23 || m > 59 || s > 59 || zh > 23 || zm > 59) return undefined;
  const date = new Date(0);
  // Unlike Date.UTC, this takes years before 100 as they are written.
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day));
  // A day that the month does not have would be moved into the next.
  if (date.getUTCMonth() !== Number(month) - 1 || date.getUTCDate() !== Number(day)) return undefined;
  const offset = (sign === '-' ? -1 : 1) * (zh * 60 + zm);
  const seconds = date.getTime() / 1000 + h * 3600 + (m - offset) * 60 + s;
  const nanoseconds = BigInt(fraction.padEnd(9, '0'));
  return BigInt(seconds) * 1_000_000n + (nanoseconds + 999n) / 1000n;
}
