import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createGuard } from '@semblance/common/process/guard';
import { SAMPLE_RATE } from '@semblance/engine-builtin/internal/lip-sync/audio/log-mel';
import { openEspeak, type PhonemeReading } from '@semblance/speech/internal/espeak';
import { openFlite } from '@semblance/speech/internal/flite';
import { resampleFloats } from '@semblance/speech/resample';
import { type Phone, type Sound, soundOfIpa } from '@semblance/speech/sounds';
import type { Synthesiser, SynthesiserOptions } from '@semblance/speech/synthesiser';
import { findSpeechTools } from '@semblance/speech/tools';

export interface Voice {
  readonly program: 'flite' | 'espeak-ng';
  /** Name of the voice in the program. */
  readonly name: string;
  /**
   * Speed (flite: duration in percent of normal; espeak-ng: words per minute) and, for espeak-ng, pitch from 0 to
   * 99.
   */
  readonly speed?: number;
  readonly pitch?: number;
}

export interface Utterance {
  /** Mono samples at {@link SAMPLE_RATE}. */
  readonly samples: Float32Array;
  readonly phones: readonly Phone[];
}

/** Speaks every text with a voice. */
export async function speak(voice: Voice, texts: readonly string[]): Promise<Utterance[]> {
  const tools = await findSpeechTools();
  if (!tools.available) throw new Error(tools.reason);
  const directory = await mkdtemp(join(tmpdir(), 'semblance-speech-'));
  const guard = createGuard({ graceMs: 200 });
  const { signal } = new AbortController();
  const synthesiser = open(voice, { tools, guard, signal, directory });
  try {
    const out: Utterance[] = [];
    for (const text of texts) {
      const { sampleRate, samples, phones } = await synthesiser.speak(text);
      const floats = Float32Array.from(samples, (value) => value / 32_768);
      out.push({ samples: resampleFloats(floats, sampleRate, SAMPLE_RATE), phones });
    }
    return out;
  } finally {
    await synthesiser.close();
    await guard.close();
    await rm(directory, { recursive: true, force: true });
  }
}

function open({ program, name, speed, pitch }: Voice, options: SynthesiserOptions): Synthesiser {
  return program === 'flite'
    ? openFlite(name, options, { stretch: (speed ?? 100) / 100 })
    : openEspeak(name, options, {
        rate: speed ?? 165,
        pitch: pitch ?? 50,
        endPause: false,
        reading: AS_TRAINED,
      });
}

/** Closure before the release of English stops, in seconds. */
const STOP_LEAD: Readonly<Record<string, number>> = { p: 0.045, b: 0.02, t: 0.04, d: 0.02, k: 0.04, ɡ: 0.02 };

/**
 * Phonemes that were read differently when the weights were trained. Only the first reading is better than that of
 * the Avatar (a Spanish b between vowels does not close the lips). But if any of them changed, the recipe would no
 * longer give these weights.
 */
const OTHERWISE: Readonly<Record<string, Sound>> = { β: 'v', r: 'r', y: 'y', '(en)': 'ey', '(fr)': 'f' };

/** Reads phonemes as when the weights were trained. */
const AS_TRAINED: PhonemeReading = {
  soundOf: (name) => OTHERWISE[name] ?? soundOfIpa(name),
  leadOf: (name) => STOP_LEAD[name] ?? 0,
  kept: 0,
};
