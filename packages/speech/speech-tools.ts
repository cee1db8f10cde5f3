/** The speech synthesisers of this machine; at least one. */
export interface SpeechTools {
  readonly available: true;
  readonly flite: { readonly file: string; readonly voices: readonly string[] } | undefined;
  /** espeak-ng: names of its voices, and the Python interpreter of its script. */
  readonly espeak: { readonly python: string; readonly voices: ReadonlySet<string> } | undefined;
  /** Arguments before a command that run it without a network; empty where the kernel forbids that. */
  readonly isolate: readonly string[];
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
