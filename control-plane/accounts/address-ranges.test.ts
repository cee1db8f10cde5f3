import { describe, expect, it } from 'vitest';
import { MAX_RANGES, parseRanges } from './address-ranges.ts';

describe('networks of a key', () => {
  it.each([
    ['192.0.2.7', '192.0.2.7/32'],
    ['192.0.2.0/24', '192.0.2.0/24'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['2001:DB8:0:0::1', '2001:db8::1/128'],
    ['2001:db8::/32', '2001:db8::/32'],
    ['::/0', '::/0'],
    ['::ffff:192.0.2.7', '192.0.2.7/32'],
    ['::ffff:192.0.2.0/120', '192.0.2.0/24'],
    ['::ffff:0:0/96', '0.0.0.0/0'],
    [' 192.0.2.7 ', '192.0.2.7/32'],
  ])('%s is %s', (text, network) => {
    expect(parseRanges([text])).toEqual([network]);
  });

  it.each([
    '',
    ' ',
    'any',
    '*',
    '10',
    '10.1',
    '010.0.0.1',
    '0x7f.0.0.1',
    '192.0.2.256',
    '192.0.2.0/33',
    '192.0.2.0/-1',
    '192.0.2.0/',
    '192.0.2.0/24/8',
    '192.0.2.1/24',
    '2001:db8::1/32',
    '2001:db8::/129',
    'fe80::1%eth0',
    '[2001:db8::1]',
    '::ffff:0:0/95',
    '::ffff:192.0.2.1/120',
    'example.com',
    "1.2.3.4'; drop table api_keys",
    '1.2.3.4\u0000',
    '٣.1.1.1',
    'a'.repeat(100_000),
  ])('%j is refused', (text) => {
    expect(() => parseRanges([text])).toThrow(RangeError);
  });

  it('are at most as many as a key has, each once', () => {
    const many = Array.from({ length: MAX_RANGES + 1 }, (_, i) => `10.0.${i}.0/24`);
    expect(parseRanges(many.slice(1))).toHaveLength(MAX_RANGES);
    expect(() => parseRanges(many)).toThrow(RangeError);
    expect(parseRanges(['10.0.0.1', '10.0.0.1/32', '::ffff:10.0.0.1'])).toEqual(['10.0.0.1/32']);
  });
});
