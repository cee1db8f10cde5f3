import type { Voice } from '@semblance/common/voices/voice';
import { resample } from '@semblance/speech/resample';
import { levelled } from '@semblance/speech/speech';
import { createVoiceConverter } from '../converter.ts';

/** Of previews, samples a second. */
export const PREVIEW_RATE = 24_000;
/** Longest preview, seconds. */
export const PREVIEW_SEC = 4;
/** Silence left before the first sound and after the last. */
const MARGIN_SEC = 0.1;
/** Between the two times that the sentence is said. */
const PAUSE_SEC = 0.4;
/** Below this share of the loudest sample it is silent. */
const SILENCE = 0.02;
/** What does not end by itself is faded out over so long. */
const FADE_SEC = 0.05;

export interface Speech {
  readonly samples: Int16Array;
  readonly sampleRate: number;
}

/**
 * A sentence in a voice. It is said twice and heard the second time, when the converter knows the speaker: as a session
 * sounds but for its first second.
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
  return shortened(levelled(trimmed(converted.subarray(converter.latencySamples))));
}

/** Without the silence at both ends, but for a margin. */
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
