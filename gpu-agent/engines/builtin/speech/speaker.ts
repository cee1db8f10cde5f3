import { createGuard } from '#common/process/guard.ts';
import { openEspeak } from './espeak.ts';
import { openFlite, PROGRAM_NAMES } from './flite.ts';
import type { Synthesiser, SynthesiserOptions, Utterance } from './synthesiser.ts';
import { type Voice, voiceId } from './voices.ts';

/** Keeps the synthesiser of the voice that spoke last. */
export class Speaker {
  readonly #options: SynthesiserOptions;
  #voice = '';
  #synthesiser: Synthesiser | undefined;

  constructor(options: Omit<SynthesiserOptions, 'guard'>) {
    this.#options = { ...options, guard: createGuard({ graceMs: 200 }) };
  }

  async speak(voice: Voice, text: string): Promise<Utterance> {
    const id = voiceId(voice);
    if (id !== this.#voice || !this.#synthesiser) {
      await this.#synthesiser?.close();
      this.#voice = id;
      this.#synthesiser =
        voice.program === 'flite'
          ? openFlite(PROGRAM_NAMES[voice.name] ?? voice.name, this.#options)
          : openEspeak(voice.name, this.#options);
    }
    return this.#synthesiser.speak(text);
  }

  async close(): Promise<void> {
    await this.#synthesiser?.close();
    await this.#options.guard.close();
  }
}
