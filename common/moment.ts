/** Matches an ISO 8601 date, or date and time of day with a zone. */
const MOMENT_PATTERN =
  /^(\d{4})-(\d{2})-(\d{2})(?:[Tt](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?(?:([Zz])|([+-])(\d{2}):?(\d{2})?))?$/;

/**
 * Regular expression for the texts that `parseMoment` takes, for schemas. It is one of RE2, so it cannot tell leap
 * years: it takes each 29th of February.
 */
export const MOMENT_FORM = [
  '^[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|[12][0-9]))',
  '([Tt]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]{1,9})?)?([Zz]|[+-]([01][0-9]|2[0-3]):?([0-5][0-9])?))?$',
].join('');

/** Rule for a moment, worded to follow the name of a field. */
export const MOMENT_RULE =
  'must be a date (2026-01-31) or an ISO 8601 time with its zone (2026-01-31T09:30:00Z)';

/**
 * Returns a moment in microseconds since 1970, UTC. A date means its first moment in UTC. Fractions of a
 * microsecond are rounded up, which does not change comparisons with whole microseconds.
 * @returns undefined if the text has another form, or its day or time does not exist
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
  // Unlike Date.UTC, setUTCFullYear takes years before 100 literally.
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day));
  // setUTCFullYear moves a day that the month does not have into the next month.
  if (date.getUTCMonth() !== Number(month) - 1 || date.getUTCDate() !== Number(day)) return undefined;
  const offset = (sign === '-' ? -1 : 1) * (zh * 60 + zm);
  const seconds = date.getTime() / 1000 + h * 3600 + (m - offset) * 60 + s;
  const nanoseconds = BigInt(fraction.padEnd(9, '0'));
  return BigInt(seconds) * 1_000_000n + (nanoseconds + 999n) / 1000n;
}
