import { describe, expect, it } from 'vitest';
import { pdqDistance, pdqHashes } from './pdq.ts';

/** Returns a picture that any program can make from the same formula. */
function pattern(width: number, height: number, seed: number): Float32Array {
  return Float32Array.from({ length: width * height }, (_, index) => {
    const [x, y] = [index % width, Math.floor(index / width)];
    return (x * 7 + y * 3 + ((x * y) >> 3) * seed + ((x >> 4) ^ (y >> 3)) * 29) % 256;
  });
}

describe('PDQ', () => {
  // The published C++ implementation computed these values (Python package pdqhash 0.2.8).
  it.each([
    {
      width: 128,
      height: 96,
      seed: 5,
      plain: '0fe50c062f69afc75f4aefebf748df43ff10ff29fd19140562001c41f200511d',
      mirrored: '5a3159537a3dde924a17babee215ca16aa55ab7ca84d415537554955b7551550',
    },
    {
      width: 320,
      height: 200,
      seed: 2,
      plain: 'fe2f7bf0ffbf09c0ebfff0010840f001017a456f8132407755f285fe057e007f',
      mirrored: 'bf7e4fd58ad85d55beac55555d558555552d1532556755225055502f50395562',
    },
    {
      width: 64,
      height: 64,
      seed: 3,
      plain: '5b4e96596cd9dddbe02a555aaf575a94f795cf35b834007c3ff0e6001300e0e1',
      mirrored: '0e5bc30d398d88cff5ff001ffa020fc1a2c49a64ed6155296aa5bb554655b5b5',
    },
    {
      width: 211,
      height: 330,
      seed: 1,
      plain: 'c087c37cc393ca1e821787b7863ec4de8efc8cc7dc079d8f98079d5730471907',
      mirrored: '9555945d96c7dd4fd753d773d351915bdba1d153c952585ac552415045524d52',
    },
  ])('of $width × $height is that of the published program', ({ width, height, seed, plain, mirrored }) => {
    const luma = pattern(width, height, seed);
    const [asIs, inMirror] = pdqHashes(luma, width, height);
    // Values within a rounding error of the median may fall on either side.
    expect(pdqDistance(asIs.bits, Buffer.from(plain, 'hex'))).toBeLessThanOrEqual(2);
    expect(pdqDistance(inMirror.bits, Buffer.from(mirrored, 'hex'))).toBeLessThanOrEqual(2);
    expect(asIs.quality).toBe(100);
  });

  it('says of a picture with nothing in it that it means little', () => {
    const [asIs] = pdqHashes(new Float32Array(100 * 100).fill(90), 100, 100);
    expect(asIs.quality).toBe(0);
  });

  it('counts the bits that differ', () => {
    expect(pdqDistance(Buffer.from('ff00', 'hex'), Buffer.from('f003', 'hex'))).toBe(6);
  });
});
