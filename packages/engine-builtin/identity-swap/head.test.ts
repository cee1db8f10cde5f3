import type { Picture } from '@semblance/engine-api/picture';
import { room } from '@semblance/testkit/engine-builtin/identity-swap/clips';
import {
  drawFigure,
  figurePerson,
  figurePoints,
  loadHead,
  RED_SHIRT,
  STANDING,
} from '@semblance/testkit/engine-builtin/identity-swap/figure';
import { yuvToRgb } from '@semblance/testkit/engine-builtin/yuv-to-rgb';
import { turnedMesh } from '@semblance/testkit/vision/turned-mesh';
import { FaceFinder } from '@semblance/vision/face-finder';
import { openSession } from '@semblance/vision/models/session';
import { beforeAll, describe, expect, it } from 'vitest';
import { shapeLips } from '../animate/lips.ts';
import { REST } from '../animate/portrait.ts';
import { planesOf } from '../animate/yuv.ts';
import { mouthScaleOf } from '../motion-transfer/mouth-scale.ts';
import { cutOut } from './cutout.ts';
import { ExpressionFollower } from './expression-follow.ts';
import { HeadPainter, type HeadPatch } from './head.ts';

const [W, H] = [600, 900];
/** Openings of a mouth as the mesh measures them, for the openings that are tried. */
const MOUTH = mouthScaleOf([0.02, 0.05, 0.1, 0.16, 0.24, 0.34, 0.46]);

let finder: FaceFinder;
let head: HeadPainter;
let points: Float32Array;

beforeAll(async () => {
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  finder = new FaceFinder({ blazeface, facemesh });
  const stance = { ...STANDING, x: W / 2, y: 1.6 * H, height: 1.5 * H };
  const look = { dress: RED_SHIRT, head: await loadHead('astronaut') };
  const { rgb, mask } = drawFigure(W, H, stance, look, room(W, H));
  const picture: Picture = { width: W, height: H, channels: 3, data: rgb };
  const person = figurePerson(figurePoints(stance), mask, W, H);
  const cutout = cutOut(picture, person, {
    size: 300,
    colors: { range: 'tv', space: 'bt709' },
    checkpoint: () => undefined,
  });
  const [face] = await finder.findUpright(picture, 40, () => undefined);
  if (!face) throw new Error('the figure has no face');
  const { scale, originX, originY } = cutout.crop;
  points = face.points.map((v, i) => (v - (i % 3 === 0 ? originX : i % 3 === 1 ? originY : 0)) / scale);
  const painter = HeadPainter.of(cutout, points);
  if (!painter) throw new Error('the cut-out has no head');
  head = painter;
}, 60_000);

/** Returns a patch as a picture; it must lie in one block. */
function pictureOf({ planes }: HeadPatch): Picture {
  const { width, height } = planes.y;
  const data = new Uint8Array((width * height * 3) / 2);
  const to = planesOf(data, width, height);
  for (const k of ['y', 'u', 'v'] as const) to[k].data.set(planes[k].data);
  return { width, height, channels: 3, data: yuvToRgb(data, width, height) };
}

const facesOf = (patch: HeadPatch) => finder.findUpright(pictureOf(patch), 40, () => undefined);

/** Returns the face rotated about the vertical axis, as a mesh would see it. */
const turned = (yaw: number): Float32Array => turnedMesh(points, yaw);

describe('the head of a cut-out', () => {
  it('is what its picture shows where nothing moves', () => {
    const { planes, alpha } = head.posed(REST);
    const flat = head.flat;
    const misses: number[] = [];
    for (let i = 0; i < planes.y.data.length; i++) {
      const [a, b] = [planes.y.data[i] as number, flat.planes.y.data[i] as number];
      if ((flat.alpha.data[i] as number) > 200) misses.push(Math.abs(a - b));
      expect(Math.abs((alpha.data[i] as number) - (flat.alpha.data[i] as number))).toBeLessThanOrEqual(2);
    }
    // Between the lips and at the outline of the face, pixels are mixed with their neighbours.
    const mean = misses.reduce((sum, miss) => sum + miss, 0) / misses.length;
    expect(mean).toBeLessThan(0.5);
    expect(misses.filter((miss) => miss > 6).length).toBeLessThan(0.01 * misses.length);
  });

  it('turns and opens its mouth, and its outline goes along', async () => {
    // The mesh takes a mouth that shows teeth for half open.
    const lips = shapeLips(head.portrait.rig.lips, { open: 0.5, spread: 0, round: 0 });
    const patch = head.posed({ ...REST, yaw: 0.4, expression: { lips } });
    const [face] = await facesOf(patch);
    const [still] = await facesOf(head.flat);
    if (!face || !still) throw new Error('no face');
    const gap = (p: Float32Array) =>
      ((p[14 * 3 + 1] as number) - (p[13 * 3 + 1] as number)) / head.portrait.frame.iod;
    expect(gap(face.points) - gap(still.points)).toBeGreaterThan(0.05);
    const nose = (p: Float32Array) =>
      (p[4 * 3] as number) - ((p[33 * 3] as number) + (p[263 * 3] as number)) / 2;
    expect(nose(face.points) - nose(still.points)).toBeGreaterThan(0.15 * head.portrait.frame.iod);
    const moved = patch.alpha.data.filter((a, i) => Math.abs(a - (head.flat.alpha.data[i] as number)) > 60);
    expect(moved.length).toBeGreaterThan(50);
    // The patch ends where nothing moves, because it joins the trunk there.
    const { width, height } = patch.alpha;
    for (let x = 0; x < width; x++) {
      const i = (height - 1) * width + x;
      expect(
        Math.abs((patch.planes.y.data[i] as number) - (head.flat.planes.y.data[i] as number)),
      ).toBeLessThan(8);
    }
  });

  it('has no face from behind', async () => {
    expect(await facesOf(head.flat)).toHaveLength(1);
    expect(await facesOf(head.behind())).toHaveLength(0);
  });
});

describe('a head that follows a face', () => {
  const at = (frame: number): number => frame * 40_000;

  it('turns as far as the face does, whatever it began with', () => {
    const follower = new ExpressionFollower(head.portrait, MOUTH);
    let yaw = 0;
    for (let i = 0; i < 20; i++) yaw = follower.pose(turned(-0.3), at(i), []).pose.yaw;
    // The rotation is relative to a picture that faces the camera.
    expect(Math.abs(yaw)).toBeGreaterThan(0.2);
    expect(Math.abs(yaw)).toBeLessThan(0.45);
    const straight = new ExpressionFollower(head.portrait, MOUTH);
    for (let i = 0; i < 20; i++) yaw = straight.pose(turned(0), at(i), []).pose.yaw;
    expect(Math.abs(yaw)).toBeLessThan(0.05);
  });

  it('goes over into the flat head without a jump when the face is lost, and back', () => {
    const follower = new ExpressionFollower(head.portrait, MOUTH);
    const seen = (i: number): boolean => (i >= 10 && i < 30) || i >= 90;
    const poses = Array.from({ length: 120 }, (_, i) =>
      follower.pose(seen(i) ? turned(-0.4) : undefined, at(i), []),
    );
    const share = poses.map((pose) => pose.share);
    expect(share.slice(0, 10).every((value) => value === 0)).toBe(true);
    expect(share[29]).toBe(1);
    expect(share[80]).toBe(0);
    expect(share.at(-1)).toBe(1);
    for (let i = 1; i < poses.length; i++) {
      const [a, b] = [poses[i - 1], poses[i]].map((pose) => pose?.pose.yaw as number) as [number, number];
      // The whole way is half a radian.
      expect(Math.abs(a - b), `frame ${i}`).toBeLessThan(0.12);
      expect(Math.abs((share[i] as number) - (share[i - 1] as number)), `frame ${i}`).toBeLessThan(0.2);
    }
  });

  it('follows at once the face that a shot begins with', () => {
    const follower = new ExpressionFollower(head.portrait, MOUTH);
    expect(follower.pose(points, 0, []).share).toBe(1);
  });
});
