import { expect, it } from 'vitest';
import { MOMENT_FORM, parseMoment } from './moment.ts';

const micros = (iso: string, more = 0n) => BigInt(Date.parse(iso)) * 1000n + more;

it.each([
  ['2026-01-31', micros('2026-01-31T00:00:00Z')],
  ['2024-02-29', micros('2024-02-29T00:00:00Z')],
  ['2026-01-31T09:30:00Z', micros('2026-01-31T09:30:00Z')],
  ['2026-01-31t09:30z', micros('2026-01-31T09:30:00Z')],
  ['2026-01-31T09:30:00.5Z', micros('2026-01-31T09:30:00.5Z')],
  ['2026-01-31T09:30:00,123456Z', micros('2026-01-31T09:30:00.123Z', 456n)],
  ['2026-01-31T09:30:00.1234560001Z', undefined],
  ['2026-01-31T09:30:00.123456001Z', micros('2026-01-31T09:30:00.123Z', 457n)],
  ['2026-01-31T09:30:00+02:00', micros('2026-01-31T07:30:00Z')],
  ['2026-01-31T09:30:00-0530', micros('2026-01-31T15:00:00Z')],
  ['2026-01-31T00:15:00+01', micros('2026-01-30T23:15:00Z')],
  ['1969-12-31T23:59:59.999999Z', -1n],
  ['0001-01-01', micros('0001-01-01T00:00:00Z')],
])('%s is a moment, or not', (text, expected) => {
  expect(parseMoment(text)).toBe(expected);
});

it.each([
  '',
  ' ',
  'now',
  'yesterday',
  '1700000000',
  '2026',
  '2026-01',
  '2026-1-1',
  '20260131',
  '2026-W05',
  '2026-02-30',
  '2025-02-29',
  '2026-13-01',
  '2026-00-10',
  '2026-01-00',
  '2026-01-31T09:30:00',
  '2026-01-31T09:30',
  '2026-01-31T9:30Z',
  '2026-01-31T24:00:00Z',
  '2026-01-31T09:60:00Z',
  '2026-01-31T09:30:60Z',
  '2026-01-31T09:30:00 02:00',
  '2026-01-31T09:30:00+2:00',
  '2026-01-31T09:30:00+24:00',
  '2026-01-31T09:30:00.Z',
  '2026-01-31 09:30:00Z',
  '2026-01-31Z',
  ' 2026-01-31',
  '2026-01-31\n',
  '+002026-01-31',
  '٢٠٢٦-٠١-٣١',
  'null',
])('%j is none', (text) => {
  expect(parseMoment(text)).toBeUndefined();
});

const TWO_DIGITS = Array.from({ length: 100 }, (_, i) => String(i).padStart(2, '0'));

it('the form for schemas tells the same of every day, hour, minute and zone, but for leap years', () => {
  const form = new RegExp(MOMENT_FORM, 'u');
  const agree = (text: string) =>
    expect([text, form.test(text)]).toEqual([text, parseMoment(text) !== undefined]);
  for (const month of TWO_DIGITS) for (const day of TWO_DIGITS) agree(`2024-${month}-${day}`);
  for (const part of TWO_DIGITS)
    for (const text of [
      `${part}:00Z`,
      `00:${part}Z`,
      `00:00:${part}Z`,
      `00:00+${part}:00`,
      `00:00-00${part}`,
    ])
      agree(`2026-01-31T${text}`);
  for (const end of [
    '',
    'Z',
    'z',
    '.1Z',
    ',123456789Z',
    '.Z',
    '.1234567890Z',
    '+01',
    '+01:',
    '+1',
    ' ',
    '\n',
  ])
    for (const time of ['', 'T09:30', 't09:30:00', ' 09:30', 'T9:30', 'T09'])
      agree(`2026-01-31${time}${end}`);
  // A date that a year lacks is refused by the service alone.
  expect([form.test('2025-02-29'), parseMoment('2025-02-29')]).toEqual([true, undefined]);
});
