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
