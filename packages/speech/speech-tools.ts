/** The speech synthesisers of this machine; at least one of them. */
export interface SpeechTools {
  readonly available: true;
  readonly flite: { readonly file: string; readonly voices: readonly string[] } | undefined;
  /** Names of its voices, and the interpreter of the script that speaks with it. */
  readonly espeak: { readonly python: string; readonly voices: ReadonlySet<string> } | undefined;
  /** Arguments before a command that put it into a network of its own; empty where the kernel forbids. */
  readonly isolate: readonly string[];
}

/** Why nothing can be spoken here. */
export interface MissingSpeechTools {
  readonly available: false;
  readonly reason: string;
}

/** flite's voices by the name the API gives them, the default first. All of them speak English only. */
export const FLITE_VOICES = ['slt', 'rms', 'awb', 'kal'] as const;

/** The one voice that flite has twice is taken at 16 kHz. */
export const PROGRAM_NAMES: Readonly<Record<string, string>> = { kal: 'kal16' };
