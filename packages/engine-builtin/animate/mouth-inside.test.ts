import { drawnLips } from '@semblance/testkit/engine-builtin/lips';
import { describe, expect, it } from 'vitest';
import { setGaps } from './lips.ts';
import type { MouthColours } from './mouth-colours.ts';
import { MouthInside } from './mouth-inside.ts';
import type { Planes } from './openings.ts';
import { planesOf } from './yuv.ts';

const SIZE = 200;
const COLOURS: MouthColours = {
  skin: [150, 112, 148],
  lips: [110, 120, 152],
  whites: 140,
  black: 30,
  grain: 0,
  blur: 0.8,
};
const GREY: MouthColours = { ...COLOURS, skin: [150, 128, 128], lips: [110, 128, 128] };
/** Height of the lips in the face's own frame, and pixels of the still for one of its lengths. */
const Y = 1;
const SCALE = 60;
const row = (y: number): number => Math.round(100 + SCALE * (y - Y));
const toTexture = (x: number, y: number) => [100 + SCALE * x, 100 + SCALE * (y - Y)] as const;

/** Returns a still that is all skin, apart from rows in its middle that are as light as teeth. */
function stillOf({ skin }: MouthColours, teeth?: readonly [number, number]): Planes {
  const data = new Uint8Array(SIZE * SIZE * 1.5).fill(skin[0], 0, SIZE * SIZE);
  const quarter = (SIZE * SIZE) / 4;
  data.fill(skin[1], SIZE * SIZE, SIZE * SIZE + quarter).fill(skin[2], SIZE * SIZE + quarter);
  const planes = planesOf(data, SIZE, SIZE);
  if (!teeth) return planes;
  const [from, to] = teeth.map(row) as [number, number];
  planes.y.data.fill(220, from * SIZE, to * SIZE);
  for (const plane of [planes.u, planes.v])
    plane.data.fill(128, (from / 2) * (SIZE / 2), (to / 2) * (SIZE / 2));
  return planes;
}

function opened(rest: Float32Array, open: number): Float32Array {
  const offsets = new Float32Array(rest.length);
  setGaps(rest, offsets, new Float32Array(9).fill(open));
  return rest.map((value, i) => value + (offsets[i] as number));
}

/**
 * Returns Y, U and V on a vertical line of a mouth that was closed in the still, from the upper lip to the lower one.
 * @param x aside of the seam of the middle teeth
 */
function line(open: number, colours = COLOURS, x = 0.06): number[][] {
  const rest = drawnLips(0.85, 0);
  const inside = new MouthInside(stillOf(colours), rest, toTexture, colours);
  const shade = inside.shader(opened(rest, open), (px, py) => [px, py]);
  const top = Y - 0.2 * (open - 0.02);
  return Array.from({ length: 41 }, (_, k) => {
    const out = new Float32Array(3);
    shade(x, top + (open * k) / 40, out);
    return [...out];
  });
}

const luma = (colours: readonly number[][], from = 0, to = colours.length): number[] =>
  colours.slice(from, to).map(([y]) => y as number);

describe('a mouth that opens in a still with closed lips', () => {
  it('shows upper teeth nearly as light as the whites of the eyes, and never lighter', () => {
    for (const open of [0.1, 0.25, 0.4]) {
      const teeth = Math.max(...luma(line(open), 1, 20));
      expect(teeth).toBeGreaterThan(0.75 * COLOURS.whites);
      expect(teeth).toBeLessThanOrEqual(COLOURS.whites);
    }
  });

  it('shows teeth that are lighter than dark skin where the whites are', () => {
    const skin = [80, 118, 142] as const;
    const teeth = (whites: number): number =>
      Math.max(...luma(line(0.25, { ...COLOURS, skin, lips: [60, 122, 140], whites }), 1, 16));
    expect(teeth(90)).toBeGreaterThan(skin[0] - 10);
    expect(teeth(90)).toBeLessThan(95);
    expect(teeth(140)).toBeLessThan(1.2 * skin[0]);
  });

  it('has tones from the dark of the throat to a lit tongue, and not one of them below the teeth', () => {
    const mouth = line(0.25);
    const below = luma(mouth, 18, 38);
    expect(Math.min(...below)).toBeLessThan(58);
    expect(Math.max(...below)).toBeGreaterThan(80);
    const most = Math.max(...below.map((y) => below.filter((other) => Math.abs(other - y) < 8).length));
    expect(most / below.length).toBeLessThan(0.55);
    const tongue = mouth[34] as number[];
    expect(tongue[2]).toBeGreaterThan(140);
  });

  it('has a tongue with a groove in its middle, and dark corners', () => {
    const at = (x: number): number => line(0.25, COLOURS, x)[30]?.[0] as number;
    expect(at(0)).toBeLessThan(at(0.08) - 3);
    expect(at(0.34)).toBeLessThan(0.7 * at(0.08));
  });

  it('is little darker than the darkest of the still', () => {
    for (const black of [30, 80]) {
      const darkest = Math.min(...luma(line(0.4, { ...GREY, black })));
      expect(darkest).toBeGreaterThan(black - 20);
      expect(darkest).toBeLessThan(black + 12);
    }
  });

  it('shows lower teeth in wide openings only', () => {
    // Teeth are less red than a tongue.
    const red = (open: number): number =>
      Math.min(
        ...line(open)
          .slice(36, 39)
          .map(([, , v]) => v as number),
      );
    expect(red(0.42)).toBeLessThan(red(0.2) - 3);
  });

  it('has no colour in a grey photograph', () => {
    for (const [, u, v] of line(0.25, GREY)) {
      expect(u).toBeCloseTo(128, 3);
      expect(v).toBeCloseTo(128, 3);
    }
  });

  it('has the grain of the still, the same in every frame', () => {
    const grain = { ...COLOURS, grain: 4 };
    const [smooth, grainy] = [line(0.25), line(0.25, grain)];
    const by = grainy.map(([y], i) => (y as number) - (smooth[i]?.[0] as number));
    expect(Math.max(...by.map(Math.abs))).toBeGreaterThan(1);
    expect(Math.max(...by.map(Math.abs))).toBeLessThan(16);
    expect(line(0.25, grain)).toEqual(grainy);
  });

  it('changes little by little as it opens', () => {
    const frames = Array.from({ length: 60 }, (_, k) => luma(line(0.03 + 0.006 * k)));
    for (const [k, now] of frames.slice(1).entries()) {
      const before = frames[k] as number[];
      const change = now.reduce((sum, y, i) => sum + Math.abs(y - (before[i] as number)), 0) / now.length;
      expect(change).toBeLessThan(9);
    }
  });

  it('shows nothing from far away at the corners of a rounded mouth', () => {
    const rest = drawnLips(0.85, 0);
    const still = stillOf(COLOURS);
    // What is far from the lips is white.
    still.y.data.fill(235, 0, row(Y - 0.1) * SIZE).fill(235, row(Y + 0.1) * SIZE);
    const lips = opened(rest, 0.3).map((value, i) => (i % 2 === 0 ? 0.75 * value : value));
    const shade = new MouthInside(still, rest, toTexture, COLOURS).shader(lips, (px, py) => [px, py]);
    const out = new Float32Array(3);
    for (const x of [-0.305, -0.302, 0.302, 0.305])
      for (let y = Y - 0.06; y < Y + 0.25; y += 0.01) {
        shade(x, y, out);
        expect(out[0]).toBeLessThan(200);
      }
  });
});

describe('a mouth that opens further in a still that smiles', () => {
  /** The opening at rest, all of it teeth unless `teeth` says where they are. */
  const [TOP, BOTTOM] = [Y - 0.016, Y + 0.084];

  /** Returns luma from the upper lip downwards in steps of 0.01 IOD. @param up how far the upper lip goes up */
  function smiling(gap: number, { up = 0, teeth = [TOP, BOTTOM] as const } = {}): number[] {
    const rest = opened(drawnLips(0.85, 0), 0.1);
    const inside = new MouthInside(stillOf(COLOURS, teeth), rest, toTexture, COLOURS);
    const lips = rest.slice();
    for (let i = 1; i < lips.length; i += 2)
      lips[i] = (lips[i] as number) + ((lips[i] as number) > Y + 0.01 ? gap - 0.1 - up : -up);
    const shade = inside.shader(lips, (x, y) => [x, y]);
    return Array.from({ length: Math.round(gap / 0.01) - 1 }, (_, k) => {
      const out = new Float32Array(3);
      shade(0, TOP - up + 0.01 * (k + 1), out);
      return out[0] as number;
    });
  }
  const light = (values: readonly number[]): number => values.filter((y) => y > 150).length;

  it("stretches the still's own teeth, and draws what lies beyond", () => {
    const rest = light(smiling(0.1));
    expect(light(smiling(0.14))).toBeGreaterThanOrEqual(rest + 1);
    const wide = smiling(0.3);
    expect(light(wide)).toBeGreaterThanOrEqual(rest);
    expect(light(wide)).toBeLessThan(rest + 6);
    expect(Math.min(...wide.slice(14, 26))).toBeLessThan(60);
  });

  it('keeps its teeth under the upper lip where this goes up, as in a wide O', () => {
    const wide = smiling(0.36, { up: 0.1, teeth: [Y + 0.004, Y + 0.07] });
    expect(wide.findIndex((y) => y > 150)).toBeLessThan(5);
    expect(light(wide)).toBeGreaterThanOrEqual(5);
  });

  it('lets the edges of its teeth show where the upper lip goes down over them', () => {
    expect(light(smiling(0.36, { up: -0.08 }))).toBeGreaterThanOrEqual(4);
  });

  it('changes little by little as it opens and closes', () => {
    const frames = Array.from({ length: 56 }, (_, k) => smiling(0.02 + 0.005 * k));
    for (const [k, now] of frames.slice(1).entries()) {
      const before = frames[k] as number[];
      const change = before.reduce((sum, y, i) => sum + Math.abs(y - (now[i] as number)), 0) / before.length;
      expect(change).toBeLessThan(20);
    }
  });

  it('finds its teeth where the mesh takes a part of the lips for the opening', () => {
    const teeth = [Y + 0.02, Y + 0.066] as const;
    const rest = smiling(0.1, { teeth });
    expect(light(rest)).toBeGreaterThanOrEqual(4);
    expect(light(rest.slice(0, 2))).toBe(0);
    const wide = smiling(0.3, { teeth, up: 0.03 });
    expect(light(wide)).toBeGreaterThanOrEqual(4);
    // What lies between the mesh and the teeth is lip, which moves with the lip.
    expect(wide[0]).toBeGreaterThan(70);
    expect(light(wide.slice(14))).toBe(0);
  });
});
