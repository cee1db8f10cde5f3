import { describe, expect, it } from 'vitest';
import { SharedChunk } from './shared-chunk.ts';

describe('shared chunk', () => {
  it('gives the other thread what was put there, and back', () => {
    const mine = new SharedChunk(4);
    const theirs = new SharedChunk(mine.memory);
    // The samples are at an odd offset, as in a message.
    const bytes = new Uint8Array(9);
    bytes.set(new Uint8Array(Int16Array.of(1, -2, 32_767).buffer), 3);
    mine.putBytes(bytes.subarray(3));
    expect([...theirs.samples]).toEqual([1, -2, 32_767]);
    theirs.put(Int16Array.of(7, -8));
    const taken = mine.takeBytes();
    expect([...new Int16Array(taken.buffer)]).toEqual([7, -8]);
    // The result is a copy that the next chunk does not change.
    mine.putBytes(new Uint8Array(4));
    expect([...new Int16Array(taken.buffer)]).toEqual([7, -8]);
  });

  it('takes no more than it has room for, and nothing at all', () => {
    const chunk = new SharedChunk(2);
    expect(() => chunk.putBytes(new Uint8Array(6))).toThrow(RangeError);
    expect(() => chunk.put(new Int16Array(3))).toThrow(RangeError);
    chunk.putBytes(new Uint8Array(0));
    expect([chunk.samples.length, chunk.takeBytes().length]).toEqual([0, 0]);
  });
});
