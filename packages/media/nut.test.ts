import { all } from '@semblance/testkit/media/clips';
import { describe, expect, it } from 'vitest';
import { crc32Of, nutFrameHeader, nutHeader } from './nut.ts';
import { NutError, readNut } from './nut-reader.ts';

const BYTES = (16 * 8 * 3) / 2;
const TIMES = [0, 33_367, 33_368, 5_000_000, 1_800_000_000];
const stream = () =>
  Buffer.concat([
    nutHeader(16, 8),
    ...TIMES.flatMap((ptsUs, i) => [nutFrameHeader(ptsUs, BYTES), Buffer.alloc(BYTES, i)]),
  ]);
async function* inPieces(bytes: Buffer, size: number) {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

describe('NUT', () => {
  it('has the checksum the format names', () => {
    // The check value of CRC-32 with this generator, not reflected, from 0, without a final inversion.
    expect(crc32Of(Buffer.from('123456789'))).toBe(0x89a1897f);
  });

  it.each([1, 7, 64, 1 << 20])('reads in pieces of %i bytes what it wrote', async (size) => {
    const frames = await all(readNut(inPieces(stream(), size), BYTES));
    expect(frames.map(({ ptsUs }) => ptsUs)).toEqual(TIMES);
    expect(frames.map(({ data }) => [data.length, data[0], data.at(-1)])).toEqual(
      TIMES.map((_, i) => [BYTES, i, i]),
    );
  });

  it('leaves out a frame that is cut off, wherever the cut is', async () => {
    const whole = stream();
    for (let length = 0; length < whole.length; length += 13) {
      const frames = await all(readNut(inPieces(whole.subarray(0, length), 100), BYTES));
      expect(frames.every(({ data }, i) => data.length === BYTES && data[BYTES - 1] === i)).toBe(true);
      expect(frames.length).toBeLessThan(TIMES.length);
    }
  });

  it.each([
    ['what is not NUT', Buffer.alloc(200, 65)],
    [
      'frames of another size',
      Buffer.concat([nutHeader(16, 8), nutFrameHeader(0, BYTES + 1), Buffer.alloc(BYTES + 1)]),
    ],
    ['a frame code that the header does not have', Buffer.concat([nutHeader(16, 8), Buffer.from([7, 7, 7])])],
  ])('refuses %s', async (_what, bytes) => {
    await expect(all(readNut(inPieces(bytes, 50), BYTES))).rejects.toThrow(NutError);
  });
});
