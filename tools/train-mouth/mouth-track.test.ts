/** @module-tag speech */

import { SAMPLE_RATE } from '@semblance/engine-builtin/internal/lip-sync/audio/log-mel';
import { readWeightsFile } from '@semblance/engine-builtin/internal/lip-sync/audio/mouth-model';
import {
  type MouthPose,
  measureLevel,
  mouthPoses,
  PoseReader,
} from '@semblance/engine-builtin/internal/lip-sync/audio/mouth-track';
import { decodeFloats } from '@semblance/engine-builtin/internal/lip-sync/audio/network';
import { disturb, music } from '@semblance/testkit/sound/augment';
import { posesOf } from '@semblance/testkit/sound/poses';
import { normal, seeded } from '@semblance/testkit/sound/random';
import { describe, expect, it } from 'vitest';
import { HELD_OUT_VOICES } from './corpus.ts';
import { measure } from './measure.ts';
import { trainProbe } from './probe.ts';
import { HELD_OUT_SENTENCES } from './sentences.ts';
import { speak } from './speech.ts';

async function* cut(samples: Float32Array, length: number): AsyncGenerator<Float32Array> {
  for (let at = 0; at < samples.length; at += length) yield samples.subarray(at, at + length);
}

/** Returns the number of times that closed lips part, and the mean opening. */
function chatter(poses: readonly MouthPose[]): { partings: number; mean: number } {
  let partings = 0;
  let open = false;
  for (const { openness } of poses) {
    if (!open && openness > 0.05) partings++;
    open = openness > (open ? 0.02 : 0.05);
  }
  return { partings, mean: poses.reduce((sum, { openness }) => sum + openness, 0) / poses.length };
}

describe('mouth from sound', () => {
  it.each(HELD_OUT_VOICES)(
    'follows $program $name, which the training never heard',
    async (voice) => {
      const figures = await measure(await speak(voice, HELD_OUT_SENTENCES.slice(0, 4)));
      expect(figures.opennessR).toBeGreaterThan(0.7);
      expect(figures.vowelToBilabial).toBeGreaterThan(3);
      expect(figures.closedShare).toBeGreaterThan(0.85);
      expect(figures.wronglyClosed).toBeLessThan(0.1);
      // This is one frame at 25 frames per second.
      expect(Math.abs(figures.lag)).toBeLessThanOrEqual(0.04);
    },
    30_000,
  );

  it('follows a quiet, noisy recording over a telephone nearly as well', async () => {
    const random = seeded(5);
    const [voice] = HELD_OUT_VOICES;
    if (!voice) throw new Error('no voice');
    const spoken = await speak(voice, HELD_OUT_SENTENCES.slice(4, 7));
    const heard = spoken.map((one) => ({ ...one, samples: disturb(one.samples, random) }));
    const figures = await measure(heard);
    expect(figures.opennessR).toBeGreaterThan(0.65);
    expect(figures.vowelToBilabial).toBeGreaterThan(3);
  }, 30_000);

  it('keeps the mouth shut in silence and in quiet noise', async () => {
    const random = seeded(3);
    const silence = new Float32Array(3 * SAMPLE_RATE);
    expect(chatter(await posesOf(silence))).toEqual({ partings: 0, mean: expect.closeTo(0, 2) });
    for (const level of [1e-4, 1e-3]) {
      const { partings, mean } = chatter(await posesOf(silence.map(() => level * normal(random))));
      expect(partings).toBe(0);
      expect(mean).toBeLessThan(0.01);
    }
  });

  it('moves the mouth little to music', async () => {
    const random = seeded(99);
    // For comparison, speech of the held-out voices has a mean opening of 0.076 and 2.6 partings per second.
    const { partings, mean } = chatter(await posesOf(music(12, random)));
    expect(partings / 12).toBeLessThan(0.5);
    expect(mean).toBeLessThan(0.005);
  });

  it('says the same however the sound is cut into pieces, one pose each 10 ms', async () => {
    const [voice] = HELD_OUT_VOICES;
    if (!voice) throw new Error('no voice');
    const [one] = await speak(voice, HELD_OUT_SENTENCES.slice(0, 1));
    const { samples } = one as NonNullable<typeof one>;
    const level = await measureLevel(cut(samples, 16_000));
    expect(await measureLevel(cut(samples, 777))).toBe(level);
    const all = async (length: number): Promise<MouthPose[]> => {
      const out: MouthPose[] = [];
      for await (const pose of mouthPoses(cut(samples, length), level)) out.push(pose);
      return out;
    };
    const whole = await all(samples.length);
    expect(whole).toHaveLength(Math.ceil(samples.length / 160));
    expect(await all(777)).toEqual(whole);
    expect(await all(100)).toEqual(whole);
  }, 30_000);

  it('reads poses between those of the frames around a time', async () => {
    const pose = (openness: number): MouthPose => ({
      openness,
      spread: 0,
      rounding: 0,
      closed: openness === 0,
    });
    const poses = async function* () {
      for (const openness of [0, 0.1, 0.2]) yield pose(openness);
    };
    const reader = new PoseReader(poses());
    expect((await reader.at(0)).openness).toBe(0);
    expect((await reader.at(0.01)).openness).toBeCloseTo(0.05);
    expect((await reader.at(0.0125)).openness).toBeCloseTo(0.075);
    expect((await reader.at(0.025)).openness).toBeCloseTo(0.2);
    expect((await reader.at(9)).openness).toBeCloseTo(0.2);
  });

  it('is trained by the script beside it: a short training gives the weights that the file says', async () => {
    const { notes } = readWeightsFile();
    const probe = decodeFloats(notes.probe);
    const again = await trainProbe();
    expect(again).toHaveLength(probe.length);
    for (const [i, value] of again.entries()) expect(value).toBeCloseTo(probe[i] as number, 3);
  }, 60_000);
});
