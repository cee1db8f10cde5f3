import { setImmediate } from 'node:timers/promises';
import type { Voice } from '@semblance/common/voices/voice';
import { resample } from '@semblance/speech/resample';
import { levelled } from '@semblance/speech/speech';
import { createVoiceConverter } from '../converter.ts';
import { CEILING, FULL_SCALE } from '../limiter.ts';

/** Sample rate of previews, in Hz. */
export const PREVIEW_RATE = 24_000;
/** Longest preview, in seconds. */
export const PREVIEW_SEC = 4;
/** Silence before the first sound and after the last, in seconds. */
const MARGIN_SEC = 0.1;
/** Pause between the two readings of the sentence, in seconds. */
const PAUSE_SEC = 0.4;
/** Samples that are converted in one go: 20 ms of sound. */
const BLOCK = 0.02 * PREVIEW_RATE;
/** Share of the loudest sample below which sound is silent. */
const SILENCE = 0.02;
/** Length of the fade-out of sound that does not end by itself, in seconds. */
const FADE_SEC = 0.05;

export interface Speech {
  readonly samples: Int16Array;
  readonly sampleRate: number;
}

/**
 * Returns a sentence in a voice. It converts the sentence twice and uses the second result, because the converter
 * then knows the speaker, as in a session after its first second. It lets other work go on between short blocks, so
 * that sound of sessions does not wait for it. A thread for each preview would do so too, but threads with
 * WebAssembly that come and go may crash Node.js 24 (nodejs/node#64500).
 * @throws Error when the sentence is silent, or the signal's reason
 */
export async function previewSound(
  { samples, sampleRate }: Speech,
  voice: Voice,
  signal?: AbortSignal,
): Promise<Int16Array> {
  const said = trimmed(resample(samples, sampleRate, PREVIEW_RATE));
  const once = new Int16Array(said.length + PAUSE_SEC * PREVIEW_RATE);
  once.set(said);
  const converter = createVoiceConverter({ sampleRate: PREVIEW_RATE, voice });
  const converted = new Int16Array(once.length);
  for (let reading = 1; reading <= 2; reading++) {
    for (let at = 0; at < once.length; at += BLOCK) {
      converted.set(converter.push(once.subarray(at, at + BLOCK)), at);
      await setImmediate();
      signal?.throwIfAborted();
    }
  }
  const heard = trimmed(converted.subarray(converter.latencySamples));
  return shortened(levelled(heard, CEILING / FULL_SCALE));
}

/** Removes the silence at both ends except for a margin. */
function trimmed(sound: Int16Array): Int16Array {
  const least = SILENCE * sound.reduce((peak, sample) => Math.max(peak, Math.abs(sample)), 0);
  const first = sound.findIndex((sample) => Math.abs(sample) > least);
  const last = sound.findLastIndex((sample) => Math.abs(sample) > least);
  if (first < 0) throw new Error('the synthesiser was silent');
  const margin = MARGIN_SEC * PREVIEW_RATE;
  return sound.slice(Math.max(0, first - margin), last + margin);
}

function shortened(sound: Int16Array): Int16Array {
  const most = PREVIEW_SEC * PREVIEW_RATE;
  if (sound.length <= most) return sound;
  const fade = FADE_SEC * PREVIEW_RATE;
  return sound.slice(0, most).map((sample, i) => Math.round(sample * Math.min(1, (most - 1 - i) / fade)));
}
