import { loadVoices } from '@semblance/common/voices/load-voices';
import { describe, expect, it } from 'vitest';
import { curveDb, Timbre } from './timbre.ts';

/** Returns the gain for a tone, in dB. */
function gainDb(timbre: Timbre, hz: number, rate: number): number {
  const tone = Float64Array.from({ length: rate }, (_, i) => Math.sin((2 * Math.PI * hz * i) / rate));
  timbre.apply(tone, tone.length);
  const half = tone.subarray(rate / 2);
  return 10 * Math.log10((2 * half.reduce((sum, x) => sum + x * x, 0)) / half.length);
}

describe('timbre', () => {
  it('follows the curve of every voice within 1.5 dB', async () => {
    for (const { timbre, id } of (await loadVoices()).values()) {
      for (const rate of [16_000, 48_000]) {
        for (const hz of [125, 180, 250, 500, 700, 1000, 2000, 2900, 4000]) {
          const gain = gainDb(new Timbre(timbre, rate), hz, rate);
          expect(Math.abs(gain - curveDb(timbre, hz)), `${id}, ${hz} Hz at ${rate}`).toBeLessThan(1.5);
        }
      }
    }
  });

  it('changes nothing without a curve', () => {
    const samples = Float64Array.of(0.5, -0.25, 1);
    new Timbre([], 48_000).apply(samples, 3);
    expect([...samples]).toEqual([0.5, -0.25, 1]);
  });

  it('is the same however the sound is cut, with an even and an odd number of bands', () => {
    for (const top of [2_000, 4_000]) {
      const curve = [
        { hz: 1_000, db: 0 },
        { hz: top, db: 9 },
      ];
      const [whole, cut] = [new Timbre(curve, 48_000), new Timbre(curve, 48_000)];
      const sound = Float64Array.from({ length: 500 }, (_, i) => Math.sin(i * i));
      const inPieces = sound.slice();
      whole.apply(sound, sound.length);
      for (const [from, to] of [
        [0, 0],
        [0, 1],
        [1, 2],
        [2, 300],
        [300, 500],
      ] as const)
        cut.apply(inPieces.subarray(from, to), to - from);
      expect(inPieces).toEqual(sound);
    }
  });

  it('reads the curve between its points', () => {
    const curve = [
      { hz: 100, db: -6 },
      { hz: 400, db: 6 },
    ];
    expect([50, 100, 200, 400, 9_000].map((hz) => curveDb(curve, hz))).toEqual([-6, -6, 0, 6, 6]);
  });
});
