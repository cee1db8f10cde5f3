import type { Isolation } from '@semblance/media/isolation';

/** What a voice sounds like. */
export type Sounding = 'woman' | 'man';

/** A voice that is a model: it speaks phonemes that espeak-ng reads from the text. */
export interface NeuralVoice {
  /** Its `voice_id`. */
  readonly name: string;
  /** BCP 47 tag in lower case, such as `en-us`. */
  readonly language: string;
  /** espeak-ng's voice that reads texts for it. */
  readonly espeak: string;
  /** What its first speaker sounds like; undefined where that is not known. */
  readonly sounding: Sounding | undefined;
  /** Numbers of its speakers by name; empty if it has one. */
  readonly speakers: ReadonlyMap<string, number>;
  /** In Hz. */
  readonly sampleRate: number;
  /** The numbers that stand for a phoneme. */
  readonly phonemeIds: ReadonlyMap<string, readonly number[]>;
  /** Most phonemes at once; default any number. */
  readonly longest?: number;
  /** Whether a letter and its marks are one phoneme where Unicode has one for both; default false. */
  readonly composed?: boolean;
  /**
   * Speaks the phonemes of a sentence.
   * @returns samples in [-1, 1], and the length of each phoneme in frames, which fill the samples exactly
   */
  readonly run: (
    phonemes: readonly number[],
    speaker: number,
    signal: AbortSignal,
  ) => Promise<{ readonly samples: Float32Array; readonly frames: Float32Array }>;
}

/** The speech synthesisers of this machine; at least one. */
export interface SpeechTools {
  readonly available: true;
  readonly flite: { readonly file: string; readonly voices: readonly string[] } | undefined;
  /** espeak-ng: names of its voices, and the Python interpreter of its script. */
  readonly espeak: { readonly python: string; readonly voices: ReadonlySet<string> } | undefined;
  /** Voices that are models, those that a language gets first before others; they need espeak-ng. */
  readonly neural?: readonly NeuralVoice[];
  readonly isolation: Isolation;
}

/** Why speech is unavailable here. */
export interface MissingSpeechTools {
  readonly available: false;
  readonly reason: string;
}

/** flite's voices by their API names, the default first. All of them speak only English. */
export const FLITE_VOICES = ['slt', 'rms', 'awb', 'kal'] as const;

/** The voice that flite has twice is used at 16 kHz. */
export const PROGRAM_NAMES: Readonly<Record<string, string>> = { kal: 'kal16' };
