import type { Voice } from '@semblance/common/voices/voice';
import { createVoiceConverter } from '@semblance/voice/converter';
import { RATE } from './sounds.ts';

/** Converts a whole sound and removes the delay, so that the result is aligned with the input. */
export function converted(
  sound: Int16Array,
  voice: Voice,
  sampleRate = RATE,
  cut = sampleRate / 50,
): Int16Array {
  return delayed(sound, voice, sampleRate, cut).subarray(
    createVoiceConverter({ sampleRate, voice }).latencySamples,
  );
}

/** Converts a whole sound and keeps the delay. */
export function delayed(sound: Int16Array, voice: Voice, sampleRate: number, cut: number): Int16Array {
  const converter = createVoiceConverter({ sampleRate, voice });
  const out = new Int16Array(sound.length + converter.latencySamples);
  let at = 0;
  for (let from = 0; from < sound.length; from += cut) {
    const made = converter.push(sound.subarray(from, from + cut));
    out.set(made, at);
    at += made.length;
  }
  out.set(converter.flush(), at);
  return out;
}
