/** Number of samples from which one interpolated value is made. */
export const TAPS = 16;
/** Number of positions between two samples for which there are weights. */
export const PHASES = 256;
/** Distance from the first of the {@link TAPS} samples to the position. */
export const BEFORE = TAPS / 2 - 1;

/**
 * Returns the weights of a windowed sinc (squared cosine), one row of {@link TAPS} for each position between two
 * samples.
 * @param speed input samples per output sample; above 1 the band is narrowed against aliasing
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
