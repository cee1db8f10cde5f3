import { describe, expect, it } from 'vitest';
import { mergeRates } from './merge-rates.ts';

const sizes = ['480', '720', '1080'].map((value) => ({ parameter: 'output_resolution_p', value }));
const by = (value: string, rateMicros: bigint) => ({ when: { output_resolution_p: value }, rateMicros });
const rest = (rateMicros: bigint) => ({ when: {}, rateMicros });
const inForce = [by('480', 1n), by('1080', 3n), rest(2n)];
const merge = (changes: Parameters<typeof mergeRates>[1], whole = false) =>
  mergeRates(inForce, changes, { whole, sizes });

describe('mergeRates', () => {
  it('replaces the rate with the same condition, and keeps the others', () => {
    expect(merge([by('480', 9n)])).toEqual([by('480', 9n), by('1080', 3n), rest(2n)]);
    expect(merge([rest(9n)])).toEqual([by('480', 1n), by('1080', 3n), rest(9n)]);
    expect(merge([])).toEqual(inForce);
  });

  it('adds a rate in the order of sizes, whatever the order of the changes', () => {
    expect(merge([by('720', 9n)])).toEqual([by('480', 1n), by('720', 9n), by('1080', 3n), rest(2n)]);
    expect(merge([rest(7n), by('1080', 8n), by('480', 9n)], true)).toEqual([
      by('480', 9n),
      by('1080', 8n),
      rest(7n),
    ]);
  });

  it('replaces all of them if asked to', () => {
    expect(merge([rest(9n)], true)).toEqual([rest(9n)]);
  });

  it('drops a rate in force whose condition no submit can fulfil', () => {
    const old = [{ when: { gone: 'x' }, rateMicros: 1n }, rest(2n)];
    expect(mergeRates(old, [], { whole: false, sizes })).toEqual([rest(2n)]);
  });

  it.each([
    [
      'a size that no submit asks for',
      [by('360', 1n)],
      'No rate can have output_resolution_p 360: the price goes by output_resolution_p, 480, 720, 1080.',
    ],
    [
      'two conditions',
      [{ when: { output_resolution_p: '480', x: '1' }, rateMicros: 1n }],
      'output_resolution_p 480 and x 1',
    ],
    ['one size twice', [by('480', 1n), by('480', 2n)], 'Two rates have output_resolution_p 480.'],
    ['no size twice', [rest(1n), rest(1n)], 'Two rates have an empty `when`.'],
  ])('refuses %s', (_, changes, message) => {
    expect(() => merge(changes)).toThrow(message);
  });

  it('refuses rates without one for everything else', () => {
    expect(() => merge([by('480', 1n)], true)).toThrow('One rate needs an empty `when`');
  });

  it('refuses a size where the capability has one rate', () => {
    expect(() => mergeRates([rest(1n)], [by('480', 1n)], { whole: false, sizes: [] })).toThrow(
      'has one rate',
    );
  });
});
