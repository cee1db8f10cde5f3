import { rgbToRegion } from '@semblance/media/yuv';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { COLOR, readPicture } from '@semblance/testkit/engine-builtin/video-swap/clips';
import { FaceFinder } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';
import { LEFT_EYE, LIPS_OUTER, RIGHT_EYE } from '@semblance/vision/face-regions';
import { UNKNOWN_GAZE } from '@semblance/vision/gaze';
import { openSession } from '@semblance/vision/models/session';
import { beforeAll, describe, expect, it } from 'vitest';
import { JAW } from '../swap/jaw.ts';
import { drawFace } from './draw.ts';
import type { Frame } from './frame-part.ts';
import { preparer } from './prepared-source.ts';
import { type FaceTexture, makeTexture } from './texture.ts';

let frame: Frame;
let face: Face;
let texture: FaceTexture;

beforeAll(async () => {
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  const finder = new FaceFinder({ blazeface, facemesh });
  const [target, source] = await Promise.all([readPicture(ASTRONAUT), readPicture(ADMIRAL)]);
  const [there] = await finder.find(target, () => undefined);
  const [from] = await finder.find(source, () => undefined);
  if (!there || !from) throw new Error('no face was found');
  const { width, height } = target;
  frame = { width, height, data: new Uint8Array((width * height * 3) / 2) };
  rgbToRegion(frame, { x: 0, y: 0, width, height }, Float32Array.from(target.data), COLOR);
  face = there;
  const prepared = preparer({ picture: source, points: from.points, score: from.score })(150);
  texture = makeTexture({ frame: { ...frame, data: frame.data.slice() }, face, color: COLOR }, prepared);
});

const STILL = new Float32Array(JAW.length * 2);

function drawn(
  closed: readonly [number, number],
  { gaze = UNKNOWN_GAZE, ownEyes = 0, jaw = STILL } = {},
): Uint8Array {
  const data = frame.data.slice();
  const { points, width } = face;
  const drawing = { points, width, opacity: 1, closed, ownEyes, gaze, jaw, share: 0 };
  drawFace({ ...frame, data }, { ...drawing, from: texture, to: texture }, COLOR);
  return data;
}

/** Returns the mean brightness difference inside the box around some mesh points. */
function apart(a: Uint8Array, b: Uint8Array, points: readonly number[]): number {
  const [xs, ys] = [0, 1].map((axis) => points.map((i) => face.points[i * 3 + axis] as number));
  let [sum, count] = [0, 0];
  for (let y = Math.round(Math.min(...(ys as number[]))); y <= Math.max(...(ys as number[])); y++) {
    for (let x = Math.round(Math.min(...(xs as number[]))); x <= Math.max(...(xs as number[])); x++) {
      const i = y * frame.width + x;
      sum += Math.abs((a[i] as number) - (b[i] as number));
      count++;
    }
  }
  return sum / count;
}

describe('a jaw', () => {
  it('moves with what is close to it, and nothing else does', () => {
    const down = STILL.map((_, i) => (i % 2 === 1 && Math.abs(i / 2 - JAW.length / 2) < 4 ? 0.04 : 0));
    const [still, moved] = [drawn([0, 0]), drawn([0, 0], { jaw: down })];
    expect(apart(still, moved, [152, 148, 377])).toBeGreaterThan(2);
    for (const part of [RIGHT_EYE, LEFT_EYE, [10, 109, 338]]) expect(apart(still, moved, part)).toBe(0);
    // Colour moves as brightness does.
    const colours = frame.width * frame.height;
    expect(moved.subarray(colours)).not.toEqual(still.subarray(colours));
  });
});

describe('eyes that look far aside', () => {
  it("are the frame's own", () => {
    const closed = drawn([1, 1]);
    expect(drawn([0, 0], { ownEyes: 1 })).toEqual(closed);
    const [none, half] = [drawn([0, 0]), drawn([0, 0], { ownEyes: 0.5 })];
    for (const eye of [RIGHT_EYE, LEFT_EYE])
      expect(apart(half, closed, eye) / apart(none, closed, eye)).toBeCloseTo(0.5, 1);
  });
});

describe('lids that close over an eye', () => {
  it("are the frame's own, where the new face has open eyes", () => {
    const [open, closed] = [drawn([0, 0]), drawn([1, 1])];
    for (const eye of [RIGHT_EYE, LEFT_EYE]) {
      expect(apart(open, frame.data, eye)).toBeGreaterThan(15);
      expect(apart(closed, frame.data, eye)).toBeLessThan(0.5 * apart(open, frame.data, eye));
    }
  });

  it('leave the rest of the face, and an eye that is open, as they are', () => {
    const [open, right] = [drawn([0, 0]), drawn([1, 0])];
    expect(apart(open, right, LEFT_EYE)).toBe(0);
    expect(apart(open, right, LIPS_OUTER)).toBe(0);
    expect(apart(open, right, RIGHT_EYE)).toBeGreaterThan(10);
  });
});
