import { BANDS, FRAME_RATE } from './log-mel.ts';
import { bandAt } from './mouth-model.ts';

/** Frames between two judgements: 50 ms. */
export const GATE_HOP = 5;
/** Frames on each side that a judgement uses: half a second, as long as two syllables. */
export const GATE_REACH = 50;
const LENGTH = 2 * GATE_REACH + 1;
/** Frames on each side that count as near. */
const NEAR = 14;
/** Bands that are combined into one. */
const JOINED = 2;
const WIDE = BANDS / JOINED;
/** Frames over which a change is measured. */
const STEP = 2;
/** Frequencies, in Hz, at which the loudness of a range of bands is analysed. Syllables come at 3 to 7 Hz. */
const RHYTHMS = [1, 2, 3, 4, 5, 6, 8, 10, 13, 17] as const;
const RANGES = [
  [0, 3],
  [3, 6],
  [6, 9],
  [9, 13],
] as const;
export const GATE_INPUTS = WIDE * 6 + RANGES.length * RHYTHMS.length;

const WAVES = RHYTHMS.map((hz) =>
  Array.from({ length: LENGTH }, (_, i) => {
    const turn = (2 * Math.PI * hz * (i - GATE_REACH)) / FRAME_RATE;
    const hann = (0.5 + 0.5 * Math.cos((Math.PI * (i - GATE_REACH)) / (GATE_REACH + 1))) / GATE_REACH;
    return [hann * Math.cos(turn), hann * Math.sin(turn)] as const;
  }),
);

/**
 * Computes what distinguishes speech from other sounds: the loudness of each band, the size and suddenness of its
 * changes, and its rhythm.
 */
export class GateInput {
  readonly #values = new Float64Array(LENGTH * WIDE);
  readonly #range = new Float64Array(LENGTH);

  /**
   * Computes the input of the network at a frame.
   * @param frames log-mel frames; @param index of the frame among them
   */
  at(frames: Float32Array, index: number, level: number, out: Float32Array): void {
    const values = this.#values;
    for (let i = 0; i < LENGTH; i++)
      for (let b = 0; b < WIDE; b++) {
        let sum = 0;
        for (let k = 0; k < JOINED; k++) sum += bandAt(frames, index + i - GATE_REACH, b * JOINED + k, level);
        values[i * WIDE + b] = sum / JOINED;
      }
    let at = 0;
    for (let b = 0; b < WIDE; b++) {
      at = this.#spread(b, 0, LENGTH, out, at);
      at = this.#spread(b, GATE_REACH - NEAR, GATE_REACH + NEAR + 1, out, at);
      let [sum, rise, fall] = [0, 0, 0];
      for (let i = STEP; i < LENGTH; i++) {
        const change = (values[i * WIDE + b] as number) - (values[(i - STEP) * WIDE + b] as number);
        sum += Math.abs(change);
        if (change > 0) rise += change * change;
        else fall += change * change;
      }
      out[at++] = sum / LENGTH;
      // Struck and plucked tones begin suddenly and fade slowly; voices rise and fall alike.
      out[at++] = Math.sqrt(rise / LENGTH) - Math.sqrt(fall / LENGTH);
    }
    for (const [from, to] of RANGES) at = this.#rhythms(from, to, out, at);
  }

  /** Writes the mean of a band over some frames, and its spread. */
  #spread(band: number, from: number, to: number, out: Float32Array, at: number): number {
    let [sum, squares] = [0, 0];
    for (let i = from; i < to; i++) {
      const value = this.#values[i * WIDE + band] as number;
      sum += value;
      squares += value * value;
    }
    const mean = sum / (to - from);
    out[at] = mean;
    out[at + 1] = Math.sqrt(Math.max(0, squares / (to - from) - mean * mean));
    return at + 2;
  }

  #rhythms(from: number, to: number, out: Float32Array, first: number): number {
    const range = this.#range;
    let mean = 0;
    for (let i = 0; i < LENGTH; i++) {
      let sum = 0;
      for (let b = from; b < to; b++) sum += this.#values[i * WIDE + b] as number;
      range[i] = sum / (to - from);
      mean += (range[i] as number) / LENGTH;
    }
    let at = first;
    for (const wave of WAVES) {
      let [re, im] = [0, 0];
      for (let i = 0; i < LENGTH; i++) {
        const value = (range[i] as number) - mean;
        re += value * (wave[i] as readonly [number, number])[0];
        im += value * (wave[i] as readonly [number, number])[1];
      }
      out[at++] = Math.sqrt(re * re + im * im);
    }
    return at;
  }
}
