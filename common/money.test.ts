import { describe, expect, it } from 'vitest';
import { microsToUsd, parseUsd } from './money.ts';

describe('parseUsd', () => {
  it.each([
    ['0', 0n],
    ['12', 12_000_000n],
    ['0.05', 50_000n],
    ['1.000001', 1_000_001n],
    [' 3.5 ', 3_500_000n],
    ['-2.25', -2_250_000n],
  ])('reads %s', (text, micros) => expect(parseUsd(text)).toBe(micros));

  it.each(['', 'x', '1e3', '0.0000001', '1,5', '.5', '5.', '99999999999', 'NaN', '--1'])(
    'refuses %j',
    (text) => expect(() => parseUsd(text)).toThrow(RangeError),
  );
});

describe('microsToUsd', () => {
  it('gives back what was parsed, to the micro-dollar', () => {
    for (const text of ['0.000001', '0.1', '123456.789012', '-0.3']) {
      expect(microsToUsd(parseUsd(text))).toBe(Number(text));
    }
  });

  it('refuses an amount that JSON numbers cannot carry exactly', () => {
    expect(() => microsToUsd(2n ** 60n)).toThrow(RangeError);
  });
});
