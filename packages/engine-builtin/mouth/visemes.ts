import type { Sound } from '@semblance/speech/sounds';

/** Mouth shape of a sound, and its weight against neighbouring sounds. */
export interface Viseme {
  /** Distance between the lips in the middle, in IOD. */
  readonly open: number;
  /** Corners pulled apart, lips pursed, lower lip under the upper teeth: 0–1. */
  readonly spread: number;
  readonly round: number;
  readonly tuck: number;
  /** Weight of the opening, and of the shape of the lips. */
  readonly holdOpen: number;
  readonly holdShape: number;
}

function viseme(
  open: number,
  spread: number,
  round: number,
  holdOpen: number,
  holdShape: number,
  tuck = 0,
): Viseme {
  return { open, spread, round, tuck, holdOpen, holdShape };
}

/**
 * Apertures of read speech from X-ray microbeam and video studies: 8 to 15 mm in vowels with 63 mm between the
 * eyes. Sounds of the tongue or throat alone (k, g, h, n, t) take their neighbours' lips. The mouth of Avatar
 * follows this table, and the network of Lip Sync is trained on openings and shapes that do: other numbers need
 * another training.
 */
export const VISEMES: Readonly<Record<Sound, Viseme>> = {
  aa: viseme(0.24, 0.1, 0, 1, 0.7),
  ae: viseme(0.22, 0.4, 0, 1, 0.8),
  ah: viseme(0.16, 0.1, 0, 1, 0.6),
  ao: viseme(0.2, 0, 0.45, 1, 1),
  aw: viseme(0.24, 0.1, 0, 1, 0.7),
  ax: viseme(0.12, 0.1, 0, 0.7, 0.4),
  axr: viseme(0.11, 0, 0.3, 0.8, 0.7),
  ay: viseme(0.24, 0.1, 0, 1, 0.7),
  eh: viseme(0.17, 0.4, 0, 1, 0.8),
  er: viseme(0.11, 0, 0.35, 0.9, 0.8),
  ey: viseme(0.17, 0.4, 0, 1, 0.8),
  ih: viseme(0.12, 0.45, 0, 0.9, 0.7),
  ix: viseme(0.1, 0.4, 0, 0.7, 0.5),
  iy: viseme(0.09, 0.75, 0, 1, 1),
  ow: viseme(0.15, 0, 0.65, 1, 1.1),
  oy: viseme(0.2, 0, 0.45, 1, 1),
  uh: viseme(0.11, 0, 0.5, 0.9, 0.9),
  uw: viseme(0.07, 0, 0.9, 1, 1.3),
  yu: viseme(0.07, 0, 0.9, 1, 1.3),
  p: viseme(0, 0.05, 0, 2, 0.3),
  b: viseme(0, 0.05, 0, 2, 0.3),
  m: viseme(0, 0.05, 0, 2, 0.3),
  f: viseme(0.025, 0.15, 0, 2.2, 0.6, 1),
  v: viseme(0.025, 0.15, 0, 2, 0.6, 1),
  th: viseme(0.06, 0.2, 0, 1.2, 0.4),
  dh: viseme(0.06, 0.2, 0, 1, 0.3),
  t: viseme(0.06, 0.25, 0, 0.6, 0.25),
  d: viseme(0.06, 0.25, 0, 0.6, 0.25),
  n: viseme(0.07, 0.2, 0, 0.5, 0.2),
  l: viseme(0.09, 0.2, 0, 0.5, 0.2),
  s: viseme(0.045, 0.4, 0, 1.4, 0.5),
  z: viseme(0.045, 0.4, 0, 1.2, 0.5),
  sh: viseme(0.06, 0, 0.5, 1.3, 1),
  zh: viseme(0.06, 0, 0.5, 1.2, 1),
  ch: viseme(0.06, 0, 0.5, 1.2, 0.9),
  jh: viseme(0.06, 0, 0.5, 1.2, 0.9),
  k: viseme(0.09, 0.15, 0, 0.4, 0.15),
  g: viseme(0.09, 0.15, 0, 0.4, 0.15),
  ng: viseme(0.09, 0.2, 0, 0.4, 0.15),
  y: viseme(0.07, 0.5, 0, 0.9, 0.8),
  r: viseme(0.07, 0, 0.4, 0.8, 0.8),
  w: viseme(0.04, 0, 0.95, 1.6, 1.5),
  hh: viseme(0.12, 0.1, 0, 0.15, 0.05),
};

/** The sound at which a gliding vowel ends. */
export const GLIDES: Readonly<Partial<Record<Sound, Sound>>> = {
  ay: 'ih',
  aw: 'uh',
  ey: 'iy',
  ow: 'uh',
  oy: 'ih',
};
/** Share of its time that a gliding vowel stays at its first sound. */
export const GLIDE_AT = 0.6;
