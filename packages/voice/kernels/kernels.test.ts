import { describe, expect, it } from 'vitest';
import { BEFORE, PHASES, sincTable, TAPS } from '../interpolation.ts';
import { Ring } from '../ring.ts';
import { Kernels, ROWS } from './kernels.ts';

/** Returns a fixed sequence of numbers from -1 to 1. */
function noise(count: number, seed = 1): Float32Array {
  let state = seed;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    return state / 2 ** 31;
  });
}

const close = (a: ArrayLike<number>, b: ArrayLike<number>, within: number) => {
  expect(a).toHaveLength(b.length);
  for (let i = 0; i < b.length; i++)
    expect(Math.abs((a[i] as number) - (b[i] as number)), `${i}`).toBeLessThan(within);
};

describe('filter', () => {
  it.each([
    [8, 1],
    [56, 1],
    [136, 6],
  ])('of %i taps, each %i samples, sums as it should', (taps, step) => {
    const kernels = new Kernels();
    const count = 32;
    const [input, kernel] = [kernels.floatsOf(noise(taps + count * step)), kernels.floatsOf(noise(taps, 2))];
    const out = kernels.floats(count);
    kernels.run.filter(input.byteOffset, kernel.byteOffset, taps, out.byteOffset, count, step);
    const expected = Array.from({ length: count }, (_, i) =>
      kernel.reduce((sum, weight, k) => sum + weight * (input[i * step + k] as number), 0),
    );
    close(out, expected, 1e-5);
    expect(Math.max(...expected.map(Math.abs))).toBeGreaterThan(0.5);
  });
});

describe('dots', () => {
  it.each([
    [4, 1],
    [256, 3],
    // More than the memory of a converter's stream.
    [768, 200],
  ])('of width %i multiplies each row with each of %i vectors', (width, count) => {
    const kernels = new Kernels(4 * (width * (ROWS + count) + ROWS * count));
    const [rows, vectors] = [
      kernels.floatsOf(noise(ROWS * width)),
      kernels.floatsOf(noise(count * width, 2)),
    ];
    const out = kernels.floats(ROWS * count);
    kernels.run.dots(rows.byteOffset, vectors.byteOffset, width, count, out.byteOffset);
    const expected = Array.from({ length: ROWS * count }, (_, i) => {
      const [row, vector] = [(i % ROWS) * width, Math.floor(i / ROWS) * width];
      let sum = 0;
      for (let k = 0; k < width; k++) sum += (rows[row + k] as number) * (vectors[vector + k] as number);
      return sum;
    });
    close(out, expected, 1e-4);
    expect(Math.max(...expected.map(Math.abs))).toBeGreaterThan(0.5);
  });
});

describe('likeness', () => {
  const length = 100;
  const window = 40;
  function run(sound: Float32Array, first: number, last: number): Float32Array {
    const kernels = new Kernels();
    const samples = kernels.floatsOf(sound);
    const energy = kernels.doubles(length + 1);
    for (let i = 0; i < length; i++) energy[i + 1] = (energy[i] as number) + (samples[i] as number) ** 2;
    const out = kernels.floats(last - first + 1);
    const { likeness } = kernels.run;
    likeness(samples.byteOffset, length, energy.byteOffset, window, first, last, out.byteOffset);
    return out;
  }

  it('is one less half the share that the difference has of both windows', () => {
    const sound = noise(length);
    const expected = Array.from({ length: 41 }, (_, k) => {
      const lag = 10 + k;
      const a = (length - window - lag) >> 1;
      let [difference, both] = [0, 0];
      for (let i = a; i < a + window; i++) {
        const [one, other] = [sound[i] as number, sound[i + lag] as number];
        difference += (one - other) ** 2;
        both += one ** 2 + other ** 2;
      }
      return 1 - difference / both;
    });
    close(run(sound, 10, 50), expected, 1e-5);
  });

  it('is 1 a period apart, and 0 in silence', () => {
    const tone = Float32Array.from({ length }, (_, i) => Math.sin((2 * Math.PI * i) / 25));
    close(run(tone, 25, 25), [1], 1e-5);
    close(run(new Float32Array(length), 10, 12), [0, 0, 0], 1e-9);
  });
});

describe('grain', () => {
  const speed = 1.3;
  const steps = 64;
  const shape = { at: 60.4, mark: 1_020.7, rise: 20.2, end: 41.3, fall: 15.1, gain: 0.8 };

  /** @param cuts positions at which rendering stops and then goes on */
  function run(cuts: readonly number[]): number[] {
    const kernels = new Kernels();
    const voice = new Ring(200, (count) => kernels.floats(count));
    voice.write(0, noise(2_000), 2_000);
    const table = kernels.floatsOf(sincTable(speed));
    const rises = kernels.doubles(steps + 2);
    for (let i = 0; i < rises.length; i++) rises[i] = i / steps;
    const out = kernels.doubles(150);
    const { at, mark, rise, end, fall, gain } = shape;
    const made: number[] = [];
    for (const [k, to] of cuts.entries()) {
      const first = cuts[k - 1] ?? 0;
      out.fill(0);
      kernels.run.grain(
        ...([voice.data.byteOffset, voice.mask, table.byteOffset, rises.byteOffset, steps] as const),
        ...([out.byteOffset, first, to - first, at, mark, speed, rise, end, fall, gain] as const),
      );
      made.push(...out.subarray(0, to - first));
    }
    return made;
  }

  it('is a period read at its speed, that rises, falls, and is silent beside', () => {
    const sound = noise(2_000);
    const table = sincTable(speed);
    const { at, mark, rise, end, fall, gain } = shape;
    // The ring has only the last 256 samples.
    const ring = (n: number) => sound[n + 256 * Math.floor((1_999 - n) / 256)] as number;
    const expected = Array.from({ length: 150 }, (_, n) => {
      const d = n - at;
      if (d < -rise || d >= end) return 0;
      const weight = Math.max(0, Math.min(1, d < 0 ? (d + rise) / rise : (end - d) / fall));
      const place = mark + speed * d;
      const row = Math.round((place % 1) * PHASES) * TAPS;
      let sum = 0;
      for (let k = 0; k < TAPS; k++) sum += (table[row + k] as number) * ring(Math.floor(place) - BEFORE + k);
      return gain * weight * sum;
    });
    close(run([150]), expected, 1e-5);
    expect(Math.max(...expected.map(Math.abs))).toBeGreaterThan(0.3);
  });

  it('is the same to the bit however it is cut', () => {
    expect(run([1, 50, 51, 99, 150])).toEqual(run([150]));
  });
});

describe('memory', () => {
  it('is enough for the highest rate, and says when it is not', () => {
    const kernels = new Kernels();
    expect(() => kernels.floats(2 ** 16)).toThrow(RangeError);
  });

  it('is each one’s own, and begins where the module’s ends', () => {
    const [one, other] = [new Kernels(), new Kernels()];
    const [a, b] = [one.floats(3), other.floats(3)];
    a.fill(1);
    expect([...b]).toEqual([0, 0, 0]);
    expect(one.doubles(1).byteOffset % 16).toBe(0);
    expect(one.floats(1).byteOffset).toBeGreaterThanOrEqual(a.byteOffset + a.byteLength);
  });
});
