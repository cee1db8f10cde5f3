import { describe, expect, it } from 'vitest';
import { pitchOf } from './pitch.ts';
import { raiseEnd } from './rise.ts';

const RATE = 16_000;

/** A voice-like tone that falls, then noise. */
function statement(from: number, to: number): Int16Array {
  let phase = 0;
  let state = 1;
  return Int16Array.from({ length: 1.2 * RATE }, (_, i) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    if (i >= RATE) return (state / 2 ** 31 - 1) * 300;
    phase += (2 * Math.PI * (from + ((to - from) * i) / RATE)) / RATE;
    let sum = 0;
    for (let k = 1; k <= 12; k++) sum += Math.sin(k * phase) / k;
    return sum * 5_000;
  });
}

const around = (samples: Int16Array, seconds: number): number => {
  const [point] = pitchOf(samples, RATE).toSorted(
    (a, b) => Math.abs(a.seconds - seconds) - Math.abs(b.seconds - seconds),
  );
  return point?.hz ?? 0;
};

const power = (samples: Int16Array): number =>
  samples.reduce((sum, value) => sum + value * value, 0) / samples.length;

describe('the end of a question', () => {
  it.each([
    [130, 90],
    [220, 170],
  ])('that falls from %i to %i Hz rises above the median', (from, to) => {
    const samples = statement(from, to);
    const before = samples.slice();
    raiseEnd(samples, RATE);
    const median = (from + to) / 2;
    expect(around(before, 0.95)).toBeLessThan(median);
    expect(around(samples, 0.95) / median).toBeGreaterThan(1.15);
    expect(around(samples, 0.95)).toBeGreaterThan(around(samples, 0.75));
    // What lies before the rise, and what has no pitch, stay.
    expect(samples.subarray(0, 0.5 * RATE)).toEqual(before.subarray(0, 0.5 * RATE));
    expect(samples.subarray(1.05 * RATE)).toEqual(before.subarray(1.05 * RATE));
    // It is as loud as before, without a click.
    const [old, raised] = [before, samples].map((all) => all.subarray(0.6 * RATE, RATE)) as [
      Int16Array,
      Int16Array,
    ];
    expect(power(raised) / power(old)).toBeGreaterThan(0.6);
    expect(power(raised) / power(old)).toBeLessThan(1.6);
    const steepest = (part: Int16Array) =>
      part.reduce((most, value, i) => Math.max(most, Math.abs(value - (part[i - 1] ?? value))), 0);
    expect(steepest(raised)).toBeLessThan(1.5 * steepest(old));
  });

  it('stays without a voice', () => {
    const silent = new Int16Array(RATE);
    raiseEnd(silent, RATE);
    expect(silent).toEqual(new Int16Array(RATE));
    const empty = new Int16Array(0);
    raiseEnd(empty, RATE);
    expect(empty).toHaveLength(0);
  });
});
