import { createGuard } from '@semblance/common/process/guard';
import { RenderError } from '@semblance/engine-api/engine';
import { openEspeak } from './espeak.ts';
import { openFlite } from './flite.ts';
import { openNeural } from './neural.ts';
import { PROGRAM_NAMES } from './speech-tools.ts';
import type { Synthesiser, SynthesiserOptions, Utterance } from './synthesiser.ts';
import { type Voice, voiceId } from './voices.ts';

/** Number of synthesisers that are kept, because a script may change the voice at every word. */
const MAX_KEPT = 3;

/** Keeps the synthesisers of the voices that spoke last. */
export class Speaker {
  readonly #options: SynthesiserOptions;
  /** Synthesisers by voice; the last speaker is at the end. */
  readonly #kept = new Map<string, Synthesiser>();

  constructor(options: Omit<SynthesiserOptions, 'guard'>) {
    this.#options = { ...options, guard: createGuard({ graceMs: 200 }) };
  }

  async speak(voice: Voice, text: string): Promise<Utterance> {
    const id = voiceId(voice);
    const synthesiser = this.#kept.get(id) ?? this.#open(voice);
    this.#kept.delete(id);
    this.#kept.set(id, synthesiser);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > MAX_KEPT && oldest !== undefined) {
      await this.#kept.get(oldest)?.close();
      this.#kept.delete(oldest);
    }
    return synthesiser.speak(text);
  }

  async close(): Promise<void> {
    for (const synthesiser of this.#kept.values()) await synthesiser.close();
    await this.#options.guard.close();
  }

  #open({ program, name, speaker }: Voice): Synthesiser {
    if (program === 'flite') return openFlite(PROGRAM_NAMES[name] ?? name, this.#options);
    if (program === 'espeak-ng') return openEspeak(name, this.#options);
    const voice = this.#options.tools.neural?.find((one) => one.name === name);
    if (!voice) throw new RenderError('processing_failed', `The voice ${name} is not there any more.`);
    return openNeural(voice, speaker, this.#options);
  }
}
