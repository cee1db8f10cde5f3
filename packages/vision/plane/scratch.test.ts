import { expect, it } from 'vitest';
import { floats, withScratch } from './scratch.ts';

it('hands out zeros that do not overlap, and the same memory again once it is free', () => {
  const first = withScratch(() => {
    const a = floats(1000).fill(7);
    const b = floats(1000);
    expect(b.every((value) => value === 0)).toBe(true);
    b.fill(9);
    expect(a.every((value) => value === 7)).toBe(true);
    return a.byteOffset;
  });
  withScratch(() => {
    const again = floats(1000);
    expect(again.byteOffset).toBe(first);
    expect(again.every((value) => value === 0)).toBe(true);
  });
});

it('keeps what an outer scope holds when an inner one ends, even by an error', () => {
  withScratch(() => {
    const outer = floats(100).fill(3);
    expect(() =>
      withScratch(() => {
        floats(100).fill(5);
        throw new Error('stop');
      }),
    ).toThrow('stop');
    floats(100).fill(6);
    expect(outer.every((value) => value === 3)).toBe(true);
  });
});

it('gives memory of their own to callers outside, and to fields larger than the block', () => {
  const outside = floats(10).fill(1);
  withScratch(() => floats(10).fill(2));
  expect(outside.every((value) => value === 1)).toBe(true);
  const large = withScratch(() => floats(8 * 1024 * 1024).fill(4));
  withScratch(() => floats(10).fill(2));
  expect(large[0]).toBe(4);
});
