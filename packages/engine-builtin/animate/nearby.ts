import type { RgbImage } from '@semblance/vision/picture';

/** Distance over which a mean reaches, in pixels, and of how many pixels in a row one counts. */
const WIDE = { spread: 6, every: 2 } as const;
/** Weight of each {@link KIND}: what may show a fringe has little. */
const WEIGHTS = [1, 0, 0.05, 0];

/** Means of the colours, and of their squares, of what is seen nearest to each pixel. */
export interface Nearby {
  readonly means: Float32Array;
  readonly squares: Float32Array;
}

/**
 * Spreads the colours of the border over the hidden part.
 * @param targets the hidden pixels, the outermost first
 */
export function lookNearby(image: RgbImage, kinds: Uint8Array, targets: Int32Array): Nearby {
  return spreadInto(
    image,
    Float32Array.from(kinds, (kind) => WEIGHTS[kind] as number),
    targets,
    WIDE,
  );
}

/**
 * Spreads colours over some pixels.
 * @param weights of all pixels
 * @param targets those without a weight, the outermost first
 * @param within distance over which a mean reaches, in pixels, and of how many pixels in a row one counts
 */
export function spreadInto(
  image: RgbImage,
  weights: Float32Array,
  targets: Int32Array,
  { spread, every }: { readonly spread: number; readonly every: number },
): Nearby {
  const { width, height, data } = image;
  const known = weights.slice();
  const means = data.slice();
  const squares = new Float32Array(data.length);
  for (let i = 0; i < data.length; i++) squares[i] = (data[i] as number) ** 2;
  for (const target of targets) {
    const x = target % width;
    const y = (target - x) / width;
    let [red, green, blue, redSquare, greenSquare, blueSquare, all] = [0, 0, 0, 0, 0, 0, 0];
    const last = Math.min(width - 1, x + spread);
    const lowest = Math.min(height - 1, y + spread);
    for (let row = Math.max(0, y - spread); row <= lowest; row += every) {
      for (let at = row * width + Math.max(0, x - spread); at <= row * width + last; at += every) {
        const weight = known[at] as number;
        if (weight === 0) continue;
        red += weight * (means[at * 3] as number);
        green += weight * (means[at * 3 + 1] as number);
        blue += weight * (means[at * 3 + 2] as number);
        redSquare += weight * (squares[at * 3] as number);
        greenSquare += weight * (squares[at * 3 + 1] as number);
        blueSquare += weight * (squares[at * 3 + 2] as number);
        all += weight;
      }
    }
    if (all > 0) {
      means.set([red / all, green / all, blue / all], target * 3);
      squares.set([redSquare / all, greenSquare / all, blueSquare / all], target * 3);
      known[target] = Math.min(1, all);
    }
  }
  return { means, squares };
}
