import { npzOf } from '@semblance/testkit/engine-onnx/tiny-kokoro';
import { describe, expect, it } from 'vitest';
import { readNpz } from './npz.ts';

const MOST = 1_000_000;
const arrays = {
  af_one: { shape: [2, 1, 3], data: Float32Array.of(1, 2, 3, 4, 5, 6.5) },
  am_two: { shape: [1], data: Float32Array.of(-7) },
};

describe('a .npz file', () => {
  it.each([false, true])('has its arrays, packed: %s', (packed) => {
    expect(readNpz(npzOf(arrays, packed), MOST)).toEqual(new Map(Object.entries(arrays)));
  });

  it.each([
    ['text', Buffer.from('not a file of this kind, but long enough'), 'is no .npz file'],
    ['nothing', Buffer.alloc(0), 'is no .npz file'],
    ['cut off in front', npzOf(arrays).subarray(40), /^is damaged: /],
    [
      'float64',
      npzOf({ one: { shape: [1], data: Float64Array.of(1) } }),
      "one.npy: expected float32 in C order ('<f4'), found <f8",
    ],
    [
      'a wrong shape',
      npzOf({ one: { shape: [3], data: Float32Array.of(1, 2) } }),
      'one.npy: has 8 bytes for [3]',
    ],
  ])('is refused: %s', (_what, file, message) => {
    expect(() => readNpz(file, MOST)).toThrow(message);
  });

  it('is refused with a larger array than allowed, packed or not', () => {
    expect(() => readNpz(npzOf(arrays), 20)).toThrow('af_one.npy: is larger than 20 bytes');
    expect(() => readNpz(npzOf(arrays, true), 20)).toThrow('af_one.npy: is larger than 20 bytes');
  });
});
