/** Samples that one value between samples is made of. */
export const TAPS = 16;
/** Places between two samples for which there are weights. */
export const PHASES = 256;
/** The first of the {@link TAPS} samples lies this far before the place. */
export const BEFORE = TAPS / 2 - 1;

/**
 * Weights of a windowed sinc (squared cosine), one row of {@link TAPS} for each place between
 * two samples.
 * @param speed samples read for each one made: above 1 the band is narrowed, so that nothing folds back
 */
export function sincTable(speed: number): Float32Array {
  const cut = Math.min(1, 1 / speed);
  const table = new Float32Array((PHASES + 1) * TAPS);
  for (let phase = 0; phase <= PHASES; phase++) {
    let sum = 0;
    const row = phase * TAPS;
    for (let k = 0; k < TAPS; k++) {
      const d = k - BEFORE - phase / PHASES;
      const x = Math.PI * d * cut;
      const sinc = Math.abs(x) < 1e-9 ? 1 : Math.sin(x) / x;
      const window = Math.abs(d) < TAPS / 2 ? Math.cos((Math.PI * d) / TAPS) ** 2 : 0;
      table[row + k] = sinc * window;
      sum += sinc * window;
    }
    for (let k = 0; k < TAPS; k++) table[row + k] = (table[row + k] as number) / sum;
  }
  return table;
}
