import type { Picture } from '@semblance/engine-api/picture';
import { openPortraits, type Portrait } from '@semblance/testkit/engine-builtin/portraits';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { FaceCover } from '@semblance/vision/face-cover';
import { cropsOf } from '@semblance/vision/face-mesh';
import { type Gaze, UNKNOWN_GAZE } from '@semblance/vision/gaze';
import { openSession } from '@semblance/vision/models/session';
import { type Plane, plane } from '@semblance/vision/plane/plane';
import { beforeAll, describe, expect, it } from 'vitest';
import { ALL_SHOWN, type EyesKnown, type ShownFeatures, shownFeatures } from './shown-features.ts';
import { flatten, prepareSource } from './source-face.ts';
import { planSwap, swapFace } from './swap-face.ts';

let target: Portrait;
let source: Portrait;

beforeAll(async () => {
  [target, source] = (await openPortraits(ADMIRAL, ASTRONAUT)) as [Portrait, Portrait];
});

/** Returns brightness of a picture relative to its surroundings, roughly: the picture itself. */
function brightness({ width, height, data }: Picture): Plane {
  const out = plane(width, height);
  for (let i = 0; i < out.data.length; i++) out.data[i] = data[i * 3 + 1] as number;
  return out;
}

/** Returns a portrait with a plain cloth over a part of the face, and whether each pixel is cloth. */
function covered({ picture, face }: Portrait, from: number, to: number): Portrait & { cloth: Uint8Array } {
  const { width, height } = picture;
  const data = picture.data.slice();
  const cloth = new Uint8Array(width * height);
  const y = (index: number): number => Math.round(face.points[index * 3 + 1] as number);
  const x = (index: number): number => Math.round(face.points[index * 3] as number);
  for (let row = y(from); row < y(to); row++) {
    for (let column = x(234); column < x(454); column++) {
      const i = row * width + column;
      cloth[i] = 1;
      data.set([90 + (row % 3), 140 + (column % 3), 170], i * 3);
    }
  }
  return { picture: { ...picture, data }, face, cloth };
}

const plan = (base: Portrait) =>
  planSwap(base.picture, base.face, prepareSource(source.picture, source.face, base.face.width));

describe('shownFeatures', () => {
  it('finds all features of a face that lies over itself, and none of a blank', () => {
    const { picture, face } = target;
    const own = brightness(picture);
    const points = flatten(face.points);
    const free = plane(picture.width, picture.height, 1);
    expect(shownFeatures(own, own, { free, front: undefined }, points, face.width)).toEqual(ALL_SHOWN);
    const noise = plane(picture.width, picture.height);
    for (let i = 0; i < noise.data.length; i++) noise.data[i] = (i * 7919) % 13;
    expect(shownFeatures(own, noise, { free, front: undefined }, points, face.width)).toEqual({
      mouth: 0,
      nose: 0,
      right: 0,
      left: 0,
      rightBrow: 0,
      leftBrow: 0,
    });
  });

  it('lets mouth and nose of a film stay the source’s until they surely are hidden', () => {
    const { picture, face } = target;
    const own = brightness(picture);
    const points = flatten(face.points);
    const free = plane(picture.width, picture.height, 1);
    const film = { free, front: undefined };
    // Noise beside the picture lowers the correlation step by step.
    const steps = Array.from({ length: 30 }, (_, step) => {
      const other = plane(picture.width, picture.height);
      for (let i = 0; i < other.data.length; i++)
        other.data[i] = (own.data[i] as number) + 12 * step * (((i * 7919) % 13) - 6);
      return [undefined, ALL_SHOWN].map((before) =>
        shownFeatures(own, other, film, points, face.width, before),
      ) as [ShownFeatures, ShownFeatures];
    });
    for (const feature of ['mouth', 'nose'] as const) {
      const last = ([0, 1] as const).map((k) => steps.findLastIndex((one) => one[k][feature] === 1));
      expect(last[0]).toBeGreaterThan(0);
      expect(last[1]).toBeGreaterThan(last[0] as number);
      expect(last[1]).toBeLessThan(29);
    }
  });

  it('lets a face that was bearded in a film be so', () => {
    const { picture, face } = target;
    const from = prepareSource(source.picture, source.face, face.width);
    const before = { taken: ALL_SHOWN, bearded: true };
    expect([undefined, before].map((one) => planSwap(picture, face, from, { before: one }).bearded)).toEqual([
      false,
      true,
    ]);
  });

  it('takes both eyes or none, and no open ones for shut ones unless they blink', () => {
    const { picture, face } = target;
    const own = brightness(picture);
    const points = flatten(face.points);
    const [free, front] = [plane(picture.width, picture.height, 1), plane(picture.width, picture.height)];
    const open: Gaze = { aside: 0, sure: 1, seen: [1, 1], shut: [0, 0] };
    const shut: Gaze = { ...UNKNOWN_GAZE, shut: [1, 1] };
    const one: Gaze = { ...UNKNOWN_GAZE, seen: [0, 1], shut: [1, 0] };
    const eyes = (known: EyesKnown): number[] => {
      const { right, left } = shownFeatures(own, own, { free, front, eyes: known }, points, face.width);
      return [right, left];
    };
    expect(eyes({ own: open, other: open })).toEqual([1, 1]);
    expect(eyes({ own: shut, other: open })).toEqual([0, 0]);
    expect(eyes({ own: open, other: shut })).toEqual([0, 0]);
    expect(eyes({ own: one, other: open })).toEqual([0, 0]);
    expect(eyes({ own: shut, other: open, filmed: { blinking: [1, 1], usual: [0, 0] } })).toEqual([1, 1]);
  });

  describe('of a face that glances aside', () => {
    const straight: Gaze = { aside: 0, sure: 1, seen: [1, 1], shut: [0, 0] };
    const glance: Gaze = { aside: 0.3, sure: 0, seen: [0, 0.6], shut: [0, 0] };

    /** Returns what is taken of another face whose eyes are not like the own. */
    function taken(eyes: EyesKnown, front?: (front: Plane) => void): number[] {
      const { picture, face } = target;
      const noise = plane(picture.width, picture.height);
      for (let i = 0; i < noise.data.length; i++) noise.data[i] = (i * 7919) % 13;
      const free = plane(picture.width, picture.height, 1);
      const known = { free, front: plane(picture.width, picture.height), eyes };
      front?.(known.front);
      const points = flatten(face.points);
      const shown = shownFeatures(brightness(picture), noise, known, points, face.width);
      return [shown.right, shown.left, shown.rightBrow, shown.leftBrow];
    }

    it('takes the brows without the eyes', () => {
      expect(taken({ own: glance, other: straight })).toEqual([0, 0, 1, 1]);
    });

    it('takes no brows over what may be dark lenses, nor where something covers them', () => {
      expect(taken({ own: UNKNOWN_GAZE, other: straight })).toEqual([0, 0, 0, 0]);
      const covered = taken({ own: glance, other: straight }, (front) => front.data.fill(1));
      expect(covered).toEqual([0, 0, 0, 0]);
    });

    it('takes the eyes, too, in a film in which the irises are usually seen', () => {
      const filmed = { blinking: [0, 0], usual: [1, 1] } as const;
      expect(taken({ own: glance, other: straight, filmed })).toEqual([1, 1, 1, 1]);
      expect(taken({ own: { ...UNKNOWN_GAZE, shut: [1, 1] }, other: straight, filmed })).toEqual([
        1, 1, 1, 1,
      ]);
    });
  });

  it('finds the features of two people', () => {
    const { mouth, nose, right, left } = plan(target).skin.features;
    expect({ mouth, nose }).toEqual({ mouth: 1, nose: 1 });
    // One of the two wears glasses.
    expect(Math.min(right, left)).toBeGreaterThan(0.8);
  });
});

describe('a swap behind a cloth', () => {
  it('leaves a cloth over mouth and nose as it is', () => {
    const masked = covered(target, 4, 152);
    const { mouth, right, left } = plan(masked).skin.features;
    expect({ mouth, eyes: Math.min(right, left) }).toEqual({ mouth: 0, eyes: 1 });
    const result = { ...masked.picture, data: masked.picture.data.slice() };
    swapFace(result, masked.face, prepareSource(source.picture, source.face, masked.face.width));
    let [kept, all] = [0, 0];
    for (let i = 0; i < masked.cloth.length; i++) {
      if (!masked.cloth[i]) continue;
      all++;
      if (Math.abs((result.data[i * 3 + 1] as number) - (masked.picture.data[i * 3 + 1] as number)) < 12)
        kept++;
    }
    expect(kept / all).toBeGreaterThan(0.93);
  });

  it('leaves a cloth over both eyes as it is, and shows the new mouth', () => {
    const { mouth, right, left } = plan(covered(target, 9, 195)).skin.features;
    expect({ mouth, right, left }).toEqual({ mouth: 1, right: 0, left: 0 });
  });
});

describe('a source behind a hand', () => {
  /** Returns the source with a patch of its cheek over its mouth, as skin-coloured as a hand. */
  function behindHand(): Portrait {
    const { picture, face } = source;
    const at = (index: number, axis: number): number => Math.round(face.points[index * 3 + axis] as number);
    const [left, right, top, bottom] = [at(207, 0), at(427, 0), at(2, 1), at(200, 1)];
    const data = picture.data.slice();
    for (let y = top; y < bottom; y++)
      for (let x = left; x < right; x++)
        for (let c = 0; c < 3; c++) {
          const finger = 12 * Math.sin((y - top) / 4 + 1) + 10 * Math.sin((x + y) / 23);
          data[(y * picture.width + x) * 3 + c] = ([196, 142, 118][c] as number) + finger;
        }
    return { picture: { ...picture, data }, face };
  }

  it('gives its eyes only', async () => {
    const { picture, face } = behindHand();
    const network = new FaceCover(await openSession('face_cover'));
    const cover = await network.of(cropsOf(picture), face);
    const featuresBy = (options: { cover?: Plane }) => {
      const prepared = prepareSource(picture, face, target.face.width, options);
      return planSwap(target.picture, target.face, prepared).skin.features;
    };
    const { mouth, right, left } = featuresBy({ cover });
    expect(mouth).toBe(0);
    expect(Math.min(right, left)).toBeGreaterThan(0.8);
    expect(featuresBy({}).mouth).toBeGreaterThan(0.3);
  });
});
