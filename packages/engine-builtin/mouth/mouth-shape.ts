import { lipRows, RING_COUNT, RING_SIZE } from './lip-rings.ts';
import { LOWER_SHARE } from './rest-mouth.ts';

/** Command for a mouth. All zero with `closed` unset is a relaxed mouth whose lips just touch. */
export interface MouthCommand {
  /** Distance between the inner edges of the lips in the middle, in inter-ocular distances (IOD). */
  readonly openness: number;
  /** How far the corners are pulled apart, as in "ee", and how far the lips are pursed, as in "oo", 0–1. */
  readonly spread: number;
  readonly rounding: number;
  /** Lips pressed together, as in p, b and m. */
  readonly closed: boolean;
}

/** Share of its half width by which the mouth widens and narrows. */
const WIDEN = 0.12;
const PURSE = 0.29;
/** How much fuller pursed lips look, and how much thinner spread and pressed ones. */
const FULLER = 0.16;
const THINNER = 0.1;
const PRESSED = 0.14;
/** Rise of the corners of a spread mouth, in IOD. */
const RISE = 0.02;

/** Returns the lip rings of a mouth for a command. @param rest rings with the lips touching */
export function shapeMouth(rest: Float32Array, command: MouthCommand): Float32Array {
  const { spread, rounding, closed } = command;
  const openness = closed ? 0 : Math.max(0, command.openness);
  const out = rest.slice();
  const x = (place: number): number => rest[place * 2] as number;
  const y = (place: number): number => rest[place * 2 + 1] as number;
  const middle = (x(0) + x(10)) / 2;
  const half = Math.max(1e-3, (x(10) - x(0)) / 2);
  const wider = WIDEN * spread - PURSE * rounding;
  const thicker = FULLER * rounding - THINNER * spread - (closed ? PRESSED : 0);
  const inner = (RING_COUNT - 1) * RING_SIZE;
  for (let place = 0; place < RING_SIZE; place++) {
    const column = place <= 10 ? place : RING_SIZE - place;
    const { upper, lower } = lipRows(column);
    const seam = (y(inner + upper) + y(inner + lower)) / 2;
    const t = column / 10;
    // The opening is wide and pointed at the corners; that of a pursed mouth is rounder.
    const profile = (4 * t * (1 - t)) ** (0.62 - 0.2 * rounding);
    const isUpper = place > 10;
    const corner = place === 0 || place === 10;
    const drop = corner ? 0 : openness * profile * (isUpper ? LOWER_SHARE - 1 : LOWER_SHARE);
    for (let ring = 0; ring < RING_COUNT; ring++) {
      const i = ring * RING_SIZE + place;
      const along = x(i) - middle;
      // Outer rings follow a little less, because the lip stretches.
      const follow = 1 - 0.1 * (1 - ring / (RING_COUNT - 1));
      out[i * 2] = middle + along * (1 + wider);
      out[i * 2 + 1] =
        seam +
        (y(i) - seam) * (1 + thicker) +
        drop * follow -
        RISE * spread * Math.min(1, Math.abs(along) / half) ** 2;
    }
  }
  return out;
}
