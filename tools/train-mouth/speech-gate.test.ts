/** @module-tag speech */

import { BANDS, MelStream, SAMPLE_RATE } from '@semblance/engine-builtin/internal/lip-sync/audio/log-mel';
import type { MouthPose } from '@semblance/engine-builtin/internal/lip-sync/audio/mouth-track';
import { decodeFloats } from '@semblance/engine-builtin/internal/lip-sync/audio/network';
import { readGateFile, SpeechGate } from '@semblance/engine-builtin/internal/lip-sync/audio/speech-gate';
import { posesOf } from '@semblance/testkit/sound/poses';
import { normal, seeded } from '@semblance/testkit/sound/random';
import { beforeAll, describe, expect, it } from 'vitest';
import { HELD_OUT_VOICES } from './corpus.ts';
import { over } from './gate-corpus.ts';
import { WORDLESS } from './instruments.ts';
import { measure } from './measure.ts';
import { trainGateProbe } from './probe.ts';
import { HELD_OUT_SENTENCES } from './sentences.ts';
import { speak, type Utterance } from './speech.ts';

let spoken: Utterance[];

beforeAll(async () => {
  const voices = HELD_OUT_VOICES.map((voice) => speak(voice, HELD_OUT_SENTENCES.slice(0, 2)));
  spoken = (await Promise.all(voices)).flat();
}, 30_000);

function framesOf(samples: Float32Array): Float32Array {
  const stream = new MelStream();
  return Float32Array.from([...stream.push(samples), ...stream.end()]);
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Returns the rate at which closed lips part, per second, and the mean opening. */
function chatter(poses: readonly MouthPose[]): { partings: number; opening: number } {
  let partings = 0;
  let open = false;
  for (const { openness } of poses) {
    if (!open && openness > 0.05) partings++;
    open = openness > (open ? 0.02 : 0.05);
  }
  return { partings: (100 * partings) / poses.length, opening: mean(poses.map(({ openness }) => openness)) };
}

describe('the speech gate', () => {
  it('takes nothing from what a mouth does to speech', async () => {
    const [gated, free] = [await measure(spoken), await measure(spoken, { gated: false })];
    expect(gated.opennessR).toBeGreaterThan(free.opennessR - 0.005);
    expect(gated.vowel).toBeGreaterThan(0.99 * free.vowel);
    expect(gated.closedShare).toBe(free.closedShare);
  }, 30_000);

  it('lets a mouth speak over music', async () => {
    const random = seeded(8);
    const sung = spoken.map(({ samples, phones }) => {
      const band = (WORDLESS.band as (typeof WORDLESS)[string])(samples.length / SAMPLE_RATE, random);
      return { samples: over(samples, band, 10), phones };
    });
    const [gated, free] = [await measure(sung), await measure(sung, { gated: false })];
    expect(gated.vowel).toBeGreaterThan(0.9 * free.vowel);
    expect(gated.opennessR).toBeGreaterThan(free.opennessR - 0.03);
  }, 30_000);

  it('keeps the mouth shut to music, to machines and to noise', async () => {
    const random = seeded(2026);
    const [gated, free]: [MouthPose[], MouthPose[]] = [[], []];
    for (const play of Object.values(WORDLESS)) {
      const sound = play(8, random);
      gated.push(...(await posesOf(sound)));
      free.push(...(await posesOf(sound, { gated: false })));
    }
    // The benchmark has figures for each kind of sound.
    expect(chatter(gated).partings).toBeLessThan(0.25 * chatter(free).partings);
    expect(chatter(gated).partings).toBeLessThan(0.3);
    expect(chatter(gated).opening).toBeLessThan(0.2 * chatter(free).opening);
  }, 30_000);

  it('opens before speech that comes after silence, and closes after it', async () => {
    const { samples, phones } = spoken[0] as Utterance;
    const pause = 3 * SAMPLE_RATE;
    const padded = new Float32Array(samples.length + 2 * pause);
    const random = seeded(1);
    for (let i = 0; i < padded.length; i++) padded[i] = 1e-3 * normal(random);
    for (const [i, value] of samples.entries()) padded[pause + i] = (padded[pause + i] as number) + value;
    const free = await posesOf(padded, { gated: false });
    const gated = await posesOf(padded);
    expect(gated).toHaveLength(free.length);
    const said = phones.filter(({ sound }) => sound !== undefined);
    const first = 300 + Math.floor(100 * (said[0]?.start ?? 0));
    const last = 300 + Math.ceil(100 * (said.at(-1)?.end ?? 0));
    expect(gated.slice(first, last)).toEqual(free.slice(first, last));
    expect(Math.max(...gated.slice(0, 200).map(({ openness }) => openness))).toBeLessThan(0.01);
    expect(Math.max(...gated.slice(-200).map(({ openness }) => openness))).toBeLessThan(0.01);
  });

  it('says one share for each frame, the same however the frames come, less than a second behind', () => {
    const frames = framesOf((spoken[0] as Utterance).samples);
    const count = frames.length / BANDS;
    const whole = new SpeechGate(-6);
    const all = [...whole.push(frames), ...whole.end()];
    expect(all).toHaveLength(count);
    for (const length of [1, 7, 100]) {
      const gate = new SpeechGate(-6);
      const shares: number[] = [];
      for (let at = 0; at < count; at += length) {
        shares.push(...gate.push(frames.subarray(at * BANDS, (at + length) * BANDS)));
        expect(shares.length).toBeGreaterThan(Math.min(count, at + length) - 100);
      }
      expect([...shares, ...gate.end()]).toEqual(all);
    }
    const nothing = new SpeechGate(-6);
    expect([...nothing.push(new Float32Array(0)), ...nothing.end()]).toEqual([]);
  });

  it('is trained by the script beside it: a short training gives the weights that the file says', async () => {
    const probe = decodeFloats(readGateFile().notes.probe);
    const again = await trainGateProbe();
    expect(again).toHaveLength(probe.length);
    for (const [i, value] of again.entries()) expect(value).toBeCloseTo(probe[i] as number, 3);
  }, 60_000);
});
