import type { Picture } from '@semblance/engine-api/picture';
import { openPortraits, type Portrait } from '@semblance/testkit/engine-builtin/portraits';
import { ASTRONAUT, PROFESSOR } from '@semblance/testkit/engine-builtin/swap-rig';
import { faceFromPoints } from '@semblance/vision/face-mesh';
import { FACE_OVAL, LEFT_BROW, RIGHT_BROW } from '@semblance/vision/face-regions';
import { shrink } from '@semblance/vision/picture';
import { fillPolygon, type Plane, plane, sample } from '@semblance/vision/plane/plane';
import { beforeAll, describe, expect, it } from 'vitest';
import { browsFaint, browsTaken } from './brows.ts';
import { convexHull } from './convex-hull.ts';
import { ALL_SHOWN } from './shown-features.ts';
import { flatten, prepareSource, type SourceFace } from './source-face.ts';
import { planSwap, swapFace } from './swap-face.ts';

let astronaut: Portrait;
let professor: Portrait;

beforeAll(async () => {
  [astronaut, professor] = (await openPortraits(ASTRONAUT, PROFESSOR)) as [Portrait, Portrait];
});

/** Returns a portrait whose hair hangs over the outer halves of both brows. */
function withFringe({ picture, face, ...rest }: Portrait): Portrait {
  const data = new Uint8Array(picture.data);
  const at = (i: number, axis: number): number => face.points[i * 3 + axis] as number;
  const top = Math.min(...FACE_OVAL.map((i) => at(i, 1))) - 0.2 * face.width;
  for (const [inner, outer] of [
    [66, 127],
    [296, 356],
  ] as const) {
    const [left, right] = [at(inner, 0), at(outer, 0)].sort((a, b) => a - b) as [number, number];
    for (let y = Math.max(0, Math.round(top)); y < at(inner, 1) + 0.03 * face.width; y++)
      for (let x = Math.round(left); x < right; x++)
        // Strands of brown hair.
        for (let c = 0; c < 3; c++)
          data[(y * picture.width + x) * 3 + c] = ([52, 36, 24][c] as number) + 8 * ((x >> 1) % 3);
  }
  return { ...rest, face, picture: { ...picture, data } };
}

function swapped(base: Portrait, source: SourceFace): Picture {
  const picture = { ...base.picture, data: base.picture.data.slice() };
  swapFace(picture, base.face, source);
  return picture;
}

/** Returns how much darker the brows of a portrait are in one picture than in another, in levels of green. */
function darker(one: Picture, other: Picture, { face }: Portrait): number {
  const brows = plane(one.width, one.height);
  for (const brow of [RIGHT_BROW, LEFT_BROW]) fillPolygon(brows, convexHull(flatten(face.points), brow));
  let [sum, count] = [0, 0];
  for (let i = 0; i < brows.data.length; i++) {
    if (!brows.data[i]) continue;
    sum += (other.data[i * 3 + 1] as number) - (one.data[i * 3 + 1] as number);
    count++;
  }
  return sum / count;
}

describe('a brow of a film', () => {
  /** Returns the share of a source on a brow that is `enlarged` so many times. */
  function shareOf(enlarged: number, options: Parameters<typeof planSwap>[3] = {}): number {
    const { picture, face } = astronaut;
    const prepared = prepareSource(professor.picture, professor.face, face.width);
    const source = { ...prepared, resolved: face.width / enlarged };
    const { skin, mixed } = planSwap(picture, face, source, options);
    return sample(skin.share, mixed[105 * 2] as number, mixed[105 * 2 + 1] as number);
  }

  it("shows none of the frame's own brow, which moves, though the source lacks detail", () => {
    const { gaze } = prepareSource(professor.picture, professor.face, astronaut.face.width);
    const filmed = { blinking: [0, 0], usual: [1, 1] } as const;
    expect(shareOf(1.6)).toBeLessThan(0.6);
    expect(shareOf(1.6, { filmed, gaze })).toBeGreaterThan(0.95);
  });

  it('is as blurred in a frame that is analysed at half its size', () => {
    expect(shareOf(1)).toBeGreaterThan(0.9);
    expect(shareOf(1, { step: 2 })).toBe(shareOf(2));
    expect(shareOf(2)).toBe(0);
  });
});

describe('brows of a source', () => {
  it('are free unless hair hangs over more than their ends', () => {
    const { width } = professor.face;
    const fringed = withFringe(astronaut);
    expect(prepareSource(astronaut.picture, astronaut.face, width).browsFree).toBe(true);
    expect(prepareSource(fringed.picture, fringed.face, width).browsFree).toBe(false);
  });

  it('are not taken with the hair that hangs over them', () => {
    const { picture, face } = withFringe(astronaut);
    const source = prepareSource(picture, face, professor.face.width);
    const { skin, mixed, originX, originY, scale } = planSwap(professor.picture, professor.face, source);
    for (const index of [63, 105, 66, 293, 334, 296]) {
      const [x, y] = [mixed[index * 2] as number, mixed[index * 2 + 1] as number];
      expect(sample(skin.share, x, y), `at ${index}`).toBeLessThan(0.1);
      expect(originX + x * scale).toBeCloseTo(professor.face.points[index * 3] as number, 2);
      expect(originY + y * scale).toBeCloseTo(professor.face.points[index * 3 + 1] as number, 2);
    }
  });

  it('stay the target’s where softer ones are not clearly darker', () => {
    const points = flatten(astronaut.face.points);
    const { width, height } = astronaut.picture;
    const brown = plane(width, height, -10);
    const black = plane(width, height, -30);
    expect(browsTaken([brown, brown], points, 0)).toBe(1);
    expect(browsTaken([brown, brown], points, 1)).toBe(0);
    expect(browsTaken([black, brown], points, 0.5)).toBe(0.5);
    expect(browsTaken([brown, black], points, 1)).toBe(1);
  });

  it('stay the target’s where those of the source are white beside black ones', () => {
    const points = flatten(astronaut.face.points);
    const { width, height } = astronaut.picture;
    const [black, fair, white] = [-30, -14, -2].map((value) => plane(width, height, value)) as [
      Plane,
      Plane,
      Plane,
    ];
    expect(browsFaint([black, white], points)).toBe(true);
    expect(browsFaint([black, fair], points)).toBe(false);
    expect(browsFaint([white, black], points)).toBe(false);
    expect(browsFaint([white, white], points)).toBe(false);
  });

  it('stay so through a film, whatever the light of a frame', () => {
    const source = prepareSource(professor.picture, professor.face, astronaut.face.width);
    const { picture, face } = astronaut;
    const taken = ALL_SHOWN;
    const plans = [true, false].map((browsKept) =>
      planSwap(picture, face, source, { before: { taken, bearded: false, browsKept } }),
    );
    const shares = plans.map(({ skin, mixed }) =>
      sample(skin.share, mixed[105 * 2] as number, mixed[105 * 2 + 1] as number),
    );
    expect(plans.map(({ skin }) => skin.browsKept)).toEqual([true, false]);
    expect(shares[0]).toBeLessThan(0.1);
    expect(shares[1]).toBeGreaterThan(0.9);
  });

  it('are not washed out when the source is small', () => {
    const by = 40 / astronaut.face.width;
    const { width, height } = astronaut.picture;
    const small = shrink(astronaut.picture, Math.round(width * by), Math.round(height * by));
    const points = astronaut.face.points.map((v) => v * by);
    const after = swapped(professor, prepareSource(small, faceFromPoints(points, 1), professor.face.width));
    expect(darker(after, professor.picture, professor)).toBeGreaterThan(-1);
  });
});
