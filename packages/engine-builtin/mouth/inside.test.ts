import { describe, expect, it } from 'vitest';
import { mouthInside } from './inside.ts';
import { lipRows, RING_COUNT, RING_SIZE } from './lip-rings.ts';
import { shapeMouth } from './mouth-shape.ts';

const BLACK = 16;
/** Y, U, V of fair skin. */
const SKIN = [160, 110, 150] as const;
const MIDDLE = 0.8;

/** Returns closed lips 0.7 IOD wide. */
function restLips(): Float32Array {
  const lips = new Float32Array(RING_COUNT * RING_SIZE * 2);
  for (let ring = 0; ring < RING_COUNT; ring++) {
    const thick = 0.09 * (1 - ring / (RING_COUNT - 1));
    for (let column = 0; column <= 10; column++) {
      const { upper, lower } = lipRows(column);
      for (const [row, side] of [
        [upper, -1],
        [lower, 1],
      ] as const) {
        const at = (ring * RING_SIZE + row) * 2;
        lips[at] = -0.35 + 0.07 * column;
        lips[at + 1] = MIDDLE + (column % 10 === 0 ? 0 : side * thick);
      }
    }
  }
  return lips;
}

/** Returns the colours from the upper lip to the lower one, by default in the middle of a tooth. */
function downTheMiddle(openness: number, pixel = 0.005, x = 0.06): Float32Array[] {
  const rest = restLips();
  const lips = shapeMouth(rest, { openness, spread: 0, rounding: 0, closed: false });
  const shade = mouthInside(
    { lips, rest, skin: SKIN, teethLuma: undefined, black: BLACK, pixel },
    (x, y, out) => {
      out[0] = x;
      out[1] = y;
    },
  );
  const top = MIDDLE - 0.2 * openness;
  return Array.from({ length: 41 }, (_, i) => {
    const out = new Float32Array(3);
    shade(x, top + (openness * i) / 40, out);
    return out;
  });
}

const reddest = (colours: readonly Float32Array[]): number =>
  Math.min(...colours.map((c) => (c[2] as number) - 128));
const brightest = (colours: readonly Float32Array[]): number =>
  Math.max(...colours.map((c) => c[0] as number));

describe('inside of the mouth', () => {
  it('is flesh and shadow behind lips that hardly part, not grey', () => {
    for (const openness of [0.02, 0.035, 0.05]) {
      const colours = downTheMiddle(openness);
      // Nearly everything is at least as red as skin, which bare teeth are not.
      expect(reddest(colours)).toBeGreaterThan(0.6 * (SKIN[2] - 128));
      expect(brightest(colours)).toBeLessThan(0.8 * SKIN[0]);
    }
  });

  it('draws nothing finer than a pixel', () => {
    /** Returns how much darker the seam between the two middle teeth is than the teeth. */
    const seam = (pixel: number): number => {
      const [tooth, between] = [0.06, 0].map((x) => brightest(downTheMiddle(0.22, pixel, x)));
      return (tooth as number) - (between as number);
    };
    /** Returns the largest change of colour over a hundredth of an IOD downwards. */
    const step = (pixel: number): number => {
      const luma = downTheMiddle(0.4, pixel).map((c) => c[0] as number);
      return Math.max(...luma.slice(1).map((value, i) => Math.abs(value - (luma[i] as number))));
    };
    // Sizes of 200 and 27 pixels between the eyes.
    expect(seam(1 / 200)).toBeGreaterThan(10);
    expect(seam(1 / 27)).toBeLessThan(0.75 * seam(1 / 200));
    expect(step(1 / 27)).toBeLessThan(0.75 * step(1 / 200));
  });

  it('shows bright teeth below the upper lip of an open mouth, and the dark under them', () => {
    const colours = downTheMiddle(0.22);
    expect(brightest(colours.slice(4, 16))).toBeGreaterThan(0.9 * SKIN[0]);
    expect(brightest(colours.slice(22, 30))).toBeLessThan(0.5 * SKIN[0]);
  });
});
