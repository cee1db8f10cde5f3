import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { resample } from '../../speech/resample.ts';
import type { Phone } from '../../speech/sounds.ts';
import { Speaker } from '../../speech/speaker.ts';
import { findSpeechTools } from '../../speech/tools.ts';
import type { Voice } from '../../speech/voices.ts';
import { SAMPLE_RATE } from '../audio/log-mel.ts';

export interface Utterance {
  /** Mono, {@link SAMPLE_RATE}. */
  readonly samples: Float32Array;
  readonly phones: readonly Phone[];
}

/**
 * Speaks every text with a voice.
 * @param pace plays it that much faster, and so much higher: a quick speaker with a small head (speed perturbation: Ko,
 *   Peddinti, Povey and Khudanpur 2015)
 */
export async function speak(voice: Voice, texts: readonly string[], pace = 1): Promise<Utterance[]> {
  const tools = await findSpeechTools();
  if (!tools.available) throw new Error(tools.reason);
  const directory = await mkdtemp(join(tmpdir(), 'semblance-speech-'));
  const speaker = new Speaker({ tools, directory, signal: new AbortController().signal });
  try {
    const out: Utterance[] = [];
    for (const text of texts) {
      const { samples, sampleRate, phones } = await speaker.speak(voice, text);
      const heard = resample(samples, Math.round(sampleRate * pace), SAMPLE_RATE);
      out.push({
        samples: Float32Array.from(heard, (value) => value / 32_768),
        phones: phones.map(({ sound, start, end }) => ({ sound, start: start / pace, end: end / pace })),
      });
    }
    return out;
  } finally {
    await speaker.close();
    await rm(directory, { recursive: true, force: true });
  }
}
