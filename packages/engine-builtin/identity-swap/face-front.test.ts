import { figurePerson, figurePoints, STANDING } from '@semblance/testkit/engine-builtin/identity-swap/figure';
import { withMicrophone } from '@semblance/testkit/engine-builtin/microphone';
import { subjectOf } from '@semblance/testkit/engine-builtin/motion/drivers';
import { ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { yuvToRgb } from '@semblance/testkit/engine-builtin/yuv-to-rgb';
import { FaceFinder } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';
import { openSession } from '@semblance/vision/models/session';
import { BODY } from '@semblance/vision/person';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { rgbToYuv } from '../animate/yuv.ts';
import { cropsOfFrame } from '../video-swap/mesh-crop.ts';
import { FaceFront, frontInFrame, handIsNear } from './face-front.ts';

const COLOR = { range: 'tv', space: 'bt709' } as const;
const SIZE = { width: 654, height: 480 };

let finder: FaceFinder;
let face: Face;
let bare: Uint8Array;
let covered: Uint8Array;
let lips: { x: number; y: number; iod: number };

beforeAll(async () => {
  const [blazeface, facemesh, face_cover] = await Promise.all([
    openSession('blazeface'),
    openSession('facemesh'),
    openSession('face_cover'),
  ]);
  finder = new FaceFinder({ blazeface, facemesh, face_cover });
  const subject = await subjectOf(finder, ASTRONAUT, 0, SIZE.height);
  const { width, height, data } = subject.picture;
  expect({ width, height }).toEqual(SIZE);
  face = subject.face;
  const [x, y] = [face.points[13 * 3] as number, face.points[13 * 3 + 1] as number];
  const iod = face.width / 2.2;
  lips = { x, y, iod };
  bare = rgbToYuv(new Uint8Array(data), width, height);
  covered = rgbToYuv(await withMicrophone(subject.picture, lips), width, height);
});

const frame = (data: Uint8Array) => ({ index: 0, ptsUs: 0, ...SIZE, data });

describe('what is in front of a face in a frame', () => {
  it('is nothing before a bare face, or without a face', async () => {
    const front = new FaceFront(finder, COLOR);
    expect(await front.look(frame(bare), face.points, undefined)).toBeUndefined();
    expect(await front.look(frame(bare), undefined, undefined)).toBeUndefined();
  });

  it('is a microphone, at its place, and not the cheek beside it', async () => {
    const seen = await new FaceFront(finder, COLOR).look(frame(covered), face.points, undefined);
    if (!seen) throw new Error('nothing was seen');
    const share = frontInFrame(seen, face, SIZE);
    const at = (x: number, y: number): number =>
      share.data[Math.round(y / 2) * share.width + Math.round(x / 2)] as number;
    expect(at(lips.x, lips.y)).toBeGreaterThan(0.9);
    expect(at(lips.x, lips.y - 0.35 * lips.iod)).toBeGreaterThan(0.9);
    expect(at(lips.x + 0.8 * lips.iod, lips.y)).toBeLessThan(0.1);
    expect(at(lips.x, lips.y - 1.1 * lips.iod)).toBeLessThan(0.1);
  });

  it('is nothing that the person wears: glasses and a cap', async () => {
    const at = (i: number): [number, number] => [
      face.points[i * 3] as number,
      face.points[i * 3 + 1] as number,
    ];
    const { width, height } = SIZE;
    const [r, top] = [0.36 * lips.iod, at(10)[1]];
    const glass = ([x, y]: [number, number]): string =>
      `<ellipse cx="${x}" cy="${y}" rx="${r}" ry="${0.8 * r}" fill="#201810" fill-opacity="0.8" stroke="#000" stroke-width="${0.25 * r}"/>`;
    const cap = `<rect x="${at(10)[0] - 1.3 * lips.iod}" y="0" width="${2.6 * lips.iod}" height="${top + 0.35 * lips.iod}" fill="#101010"/>`;
    const drawn = `<svg width="${width}" height="${height}">${glass(at(159))}${glass(at(386))}${cap}</svg>`;
    const image = await sharp(Buffer.from(yuvToRgb(bare, width, height)), {
      raw: { width, height, channels: 3 },
    })
      .composite([{ input: Buffer.from(drawn) }])
      .removeAlpha()
      .raw()
      .toBuffer();
    const worn = frame(rgbToYuv(new Uint8Array(image), width, height));
    const seen = await finder.coverOf(cropsOfFrame(worn, COLOR), face);
    expect(seen?.data.some((share) => share > 0.9)).toBe(true);
    expect(await new FaceFront(finder, COLOR).look(worn, face.points, undefined)).toBeUndefined();
  });

  it('fades out over some frames after it is gone, and at once in another shot', async () => {
    const front = new FaceFront(finder, COLOR);
    await front.look(frame(covered), face.points, undefined);
    expect(await front.look(frame(bare), face.points, undefined)).toBeDefined();
    expect(await front.look(frame(bare), face.points, undefined)).toBeUndefined();
    await front.look(frame(covered), face.points, undefined);
    front.reset();
    expect(await front.look(frame(bare), face.points, undefined)).toBeUndefined();
  });
});

describe('a hand near a face', () => {
  it('is seen by the points of the body', () => {
    const points = figurePoints({ ...STANDING, x: 330, y: 1400, height: 1300 });
    const person = figurePerson(points, new Uint8Array(SIZE.width * SIZE.height), SIZE.width, SIZE.height);
    expect(handIsNear(person, face)).toBe(false);
    const nose = { x: face.points[4 * 3] as number, y: face.points[4 * 3 + 1] as number };
    const raised = person.points.map((point, index) =>
      index === BODY.leftIndex ? { ...point, ...nose, presence: 1 } : point,
    );
    expect(handIsNear({ ...person, points: raised }, face)).toBe(true);
  });
});
