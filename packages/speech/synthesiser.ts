import type { Guard } from '@semblance/common/process/guard';
import { type EngineInterruptedError, RenderError } from '@semblance/engine-api/engine';
import { interrupted } from '@semblance/media/failure';
import type { ToolExit } from '@semblance/media/sandbox';
import type { Phone } from './sounds.ts';
import type { SpeechTools } from './speech-tools.ts';

export interface Utterance {
  readonly sampleRate: number;
  /** Mono. */
  readonly samples: Int16Array;
  /** From the utterance's start to its end, including silences, without gaps. */
  readonly phones: readonly Phone[];
}

/** Speaks with one voice, in a process of its own. */
export interface Synthesiser {
  /** @param text without control characters and line breaks @throws RenderError */
  speak(text: string): Promise<Utterance>;
  close(): Promise<void>;
}

/** Limits of one passage: a hundred times what it usually needs. */
export const LIMITS = { cpuSec: 60, memoryMib: 1024, fileMib: 64 } as const;
export const WALL_SEC = 120;

export interface SynthesiserOptions {
  readonly tools: SpeechTools;
  readonly guard: Guard;
  readonly signal: AbortSignal;
  /** Existing private directory for temporary files, which is left empty. */
  readonly directory: string;
}

/** Returns the error for a synthesiser that ended before it had spoken. */
export function speechFailure(program: string, exit: ToolExit): RenderError | EngineInterruptedError {
  const fault = interrupted(exit, program);
  if (fault) return fault;
  const how = exit.signal ? `ended by ${exit.signal}` : `exit code ${exit.code}`;
  return new RenderError(
    'processing_failed',
    `The script could not be spoken: ${program} ended before it had (${how}).`,
    {
      cause: new Error(exit.stderr || how),
    },
  );
}

/**
 * Joins utterances of one sample rate.
 * @param pause silence between two, in seconds
 */
export function joined(spoken: readonly Utterance[], pause = 0): Utterance {
  const sampleRate = spoken[0]?.sampleRate ?? 0;
  const between = Math.round(pause * sampleRate);
  const length = spoken.reduce((sum, { samples }) => sum + samples.length + between, 0);
  const samples = new Int16Array(Math.max(0, length - between));
  const phones: Phone[] = [];
  let at = 0;
  for (const [i, one] of spoken.entries()) {
    if (i > 0 && between > 0) {
      phones.push({ sound: undefined, start: at / sampleRate, end: (at + between) / sampleRate });
      at += between;
    }
    samples.set(one.samples, at);
    const base = at / sampleRate;
    for (const { start, end, ...rest } of one.phones)
      phones.push({ ...rest, start: base + start, end: base + end });
    at += one.samples.length;
  }
  return { sampleRate, samples, phones };
}
