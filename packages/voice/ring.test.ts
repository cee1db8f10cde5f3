import { describe, expect, it } from 'vitest';
import { GUARD, Ring } from './ring.ts';

const samples = (from: number, count: number) => Float32Array.from({ length: count }, (_, i) => from + i);

describe('ring', () => {
  it('keeps the latest samples under their numbers, however they are cut', () => {
    for (const cut of [1, 7, 100]) {
      const ring = new Ring(100, (count) => new Float32Array(count));
      for (let n = 0; n < 1_000; n += cut) ring.write(n, samples(n, cut), cut);
      const end = cut * Math.ceil(1_000 / cut);
      const read = new Float32Array(100);
      ring.read(end - 100, read, 100);
      expect(read).toEqual(samples(end - 100, 100));
      expect(ring.at(end - 1)).toBe(end - 1);
    }
  });

  it('has a short run in one piece wherever it begins', () => {
    const ring = new Ring(64, (count) => new Float32Array(count));
    for (const cut of [1, 5, 64]) {
      let n = 0;
      for (; n < 500; n += cut) {
        ring.write(n, samples(n, cut), cut);
        const first = n + cut - GUARD;
        if (first < 0) continue;
        const at = first & ring.mask;
        expect(ring.data.slice(at, at + GUARD)).toEqual(samples(first, GUARD));
      }
    }
  });

  it('takes the first samples of what it is given', () => {
    const ring = new Ring(64, (count) => new Float32Array(count));
    ring.write(0, samples(1, 10), 3);
    expect([...ring.data.subarray(0, 5)]).toEqual([1, 2, 3, 0, 0]);
  });
});
