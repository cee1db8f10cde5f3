import { drawnLips } from '@semblance/testkit/engine-builtin/lips';
import { describe, expect, it } from 'vitest';
import { setGaps } from './lips.ts';
import { MouthInside } from './mouth-inside.ts';
import { planesOf } from './yuv.ts';

const SIZE = 200;
const SKIN = [150, 112, 148] as const;
const WHITES = 190;
/** Height of the lips in the face's own frame. */
const Y = 1;

/** Returns Y, U and V on the middle line of a mouth that was closed in the still, from the upper lip to the lower one. */
function line(open: number, skin: readonly [number, number, number] = SKIN, grain = 0): number[][] {
  const still = new Uint8Array(SIZE * SIZE * 1.5).fill(skin[0], 0, SIZE * SIZE).fill(128, SIZE * SIZE);
  const rest = drawnLips(0.85, 0);
  const toTexture = (x: number, y: number) => [100 + 60 * x, 100 + 60 * (y - Y)] as const;
  const inside = new MouthInside(planesOf(still, SIZE, SIZE), rest, toTexture, {
    skin,
    whites: WHITES,
    grain,
  });
  const offsets = new Float32Array(rest.length);
  setGaps(rest, offsets, new Float32Array(9).fill(open));
  const lips = rest.map((value, i) => value + (offsets[i] as number));
  const shade = inside.shader(lips, (x, y) => [x, y]);
  const top = Y - 0.2 * (open - 0.02);
  return Array.from({ length: 21 }, (_, k) => {
    const out = new Float32Array(3);
    // Beside the seam of the middle teeth.
    shade(0.06, top + (open * k) / 20, out);
    return [...out];
  });
}

const luma = (colours: readonly number[][], from: number, to: number): number[] =>
  colours.slice(from, to).map(([y]) => y as number);

describe('a mouth that opens in a still with closed lips', () => {
  it('shows upper teeth as light as the whites of the eyes, the dark behind, and a tongue', () => {
    const mouth = line(0.25);
    const teeth = Math.max(...luma(mouth, 1, 8));
    expect(teeth).toBeGreaterThan(0.7 * WHITES);
    expect(teeth).toBeLessThanOrEqual(WHITES);
    const dark = Math.min(...luma(mouth, 6, 18));
    expect(dark).toBeLessThan(0.35 * SKIN[0]);
    const tongue = mouth[17] as number[];
    expect(tongue[0]).toBeGreaterThan(dark + 15);
    expect(tongue[2]).toBeGreaterThan(140);
  });

  it('shows lower teeth in wide openings only', () => {
    const low = (open: number): number => Math.max(...luma(line(open), 17, 20));
    expect(low(0.2)).toBeLessThan(90);
    expect(low(0.42)).toBeGreaterThan(95);
  });

  it('has no colour in a grey photograph', () => {
    for (const [, u, v] of line(0.25, [150, 128, 128])) {
      expect(u).toBeCloseTo(128, 3);
      expect(v).toBeCloseTo(128, 3);
    }
  });

  it('has the grain of the still, the same in every frame', () => {
    const [smooth, grainy] = [line(0.25), line(0.25, SKIN, 4)];
    const by = grainy.map(([y], i) => (y as number) - (smooth[i]?.[0] as number));
    expect(Math.max(...by.map(Math.abs))).toBeGreaterThan(1);
    expect(Math.max(...by.map(Math.abs))).toBeLessThan(16);
    expect(line(0.25, SKIN, 4)).toEqual(grainy);
  });
});

describe('a mouth that opens further in a still that smiles', () => {
  /** Returns luma between the lips, from the upper lip downwards in steps of 0.01 IOD. The still shows light teeth. */
  function opened(gap: number): number[] {
    const closed = drawnLips(0.85, 0);
    const offsets = new Float32Array(closed.length);
    setGaps(closed, offsets, new Float32Array(9).fill(0.1));
    const rest = closed.map((value, i) => value + (offsets[i] as number));
    const [top, bottom] = [Y - 0.016, Y + 0.084];
    const row = (y: number): number => Math.round(100 + 60 * (y - Y));
    const still = new Uint8Array(SIZE * SIZE * 1.5).fill(SKIN[0], 0, SIZE * SIZE).fill(128, SIZE * SIZE);
    still.fill(230, row(top) * SIZE, row(bottom) * SIZE);
    const toTexture = (x: number, y: number) => [100 + 60 * x, 100 + 60 * (y - Y)] as const;
    const colours = { skin: SKIN, whites: WHITES, grain: 0 };
    const inside = new MouthInside(planesOf(still, SIZE, SIZE), rest, toTexture, colours);
    const lips = rest.slice();
    // Only the lower lip moves.
    for (let i = 1; i < lips.length; i += 2)
      if ((lips[i] as number) > Y + 0.01) lips[i] = (lips[i] as number) + gap - 0.1;
    const shade = inside.shader(lips, (x, y) => [x, y]);
    return Array.from({ length: Math.round(gap / 0.01) - 1 }, (_, k) => {
      const out = new Float32Array(3);
      shade(0, top + 0.01 * (k + 1), out);
      return out[0] as number;
    });
  }
  const light = (values: readonly number[]): number => values.filter((y) => y > 120).length;

  it("stretches the still's own teeth, and draws what lies beyond", () => {
    const rest = light(opened(0.1));
    expect(light(opened(0.14))).toBeGreaterThanOrEqual(rest + 2);
    const wide = opened(0.3);
    expect(light(wide)).toBeLessThan(rest + 6);
    expect(Math.min(...wide.slice(18, 26))).toBeLessThan(110);
  });
});
