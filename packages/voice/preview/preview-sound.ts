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
 * then knows the speaker, as in a session after its first second.
 */
export function previewSound({ samples, sampleRate }: Speech, voice: Voice): Int16Array {
  const said = trimmed(resample(samples, sampleRate, PREVIEW_RATE));
  const pause = new Int16Array(PAUSE_SEC * PREVIEW_RATE);
  const converter = createVoiceConverter({ sampleRate: PREVIEW_RATE, voice });
  for (const before of [said, pause]) converter.push(before);
  const late = [said, pause].map((part) => converter.push(part));
  const converted = new Int16Array(late.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of late) {
    converted.set(part, at);
    at += part.length;
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
