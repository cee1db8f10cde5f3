import { join } from 'node:path';
import type { Picture } from '@semblance/engine-api/picture';
import { readRgb } from '@semblance/testkit/engine-builtin/motion/drivers';
import { ADMIRAL, ASTRONAUT, PROFESSOR } from '@semblance/testkit/engine-builtin/swap-rig';
import { background, CUTOUTS, composite, iou, PLACES } from '@semblance/testkit/vision/composites';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BODY, BODY_POINTS, type Person, type PersonFinder } from './person.ts';
import { decodePeople } from './person-detector.ts';
import { openPersonFinder } from './person-finder.ts';
import { refine } from './person-landmarks.ts';
import { maskInPicture } from './person-mask.ts';

const DEMO = join(import.meta.dirname, '..', '..', 'node_modules', '@vladmandic', 'face-api', 'demo');

let finder: PersonFinder;
beforeAll(async () => {
  finder = await openPersonFinder();
}, 60_000);
afterAll(() => finder.close());

async function find(picture: Picture, before?: Person): Promise<Person> {
  const person = await finder.find(picture, before);
  if (!person) throw new Error('nobody was found');
  return person;
}

const at = (person: Person, name: keyof typeof BODY) => {
  const point = person.points[BODY[name]];
  if (!point) throw new Error(`no ${name}`);
  return point;
};
const distance = (a: { x: number; y: number }, b: { x: number; y: number }): number =>
  Math.hypot(a.x - b.x, a.y - b.y);

describe('the person of a photograph', () => {
  it('has its points where the astronaut has them', async () => {
    const person = await find(await readRgb(sharp(ASTRONAUT)));
    expect(person.points).toHaveLength(BODY_POINTS);
    expect(person.score).toBeGreaterThan(0.9);
    // The position was read off the photograph by hand, 512 pixels wide.
    expect(distance(at(person, 'nose'), { x: 224, y: 125 })).toBeLessThan(15);
    expect(distance(at(person, 'rightEye'), { x: 203, y: 100 })).toBeLessThan(12);
    expect(distance(at(person, 'leftEye'), { x: 246, y: 102 })).toBeLessThan(12);
    expect(at(person, 'nose').visibility).toBeGreaterThan(0.9);
    expect(at(person, 'rightShoulder').x).toBeLessThan(at(person, 'leftShoulder').x);
    // The legs are outside the picture.
    expect(at(person, 'leftAnkle').visibility).toBeLessThan(0.3);
    expect(at(person, 'leftAnkle').y).toBeGreaterThan(512);
  });

  it('is found from head to foot, small and grey', async () => {
    const picture = await readRgb(sharp(PROFESSOR));
    const person = await find(picture);
    expect(distance(at(person, 'nose'), { x: 400, y: 322 })).toBeLessThan(30);
    const heights = (['nose', 'rightShoulder', 'rightHip', 'rightKnee', 'rightAnkle'] as const).map(
      (name) => at(person, name).y,
    );
    expect([...heights].sort((a, b) => a - b)).toEqual(heights);
    expect(heights.at(-1)).toBeLessThan(picture.height);
    const mask = maskInPicture(person.mask, picture.width, picture.height);
    const covered = (x: number, y: number): number => mask[y * picture.width + x] as number;
    expect(covered(330, 460)).toBeGreaterThan(200);
    // The man who sits behind, and the desk, must not be covered.
    expect(covered(155, 660)).toBeLessThan(50);
    expect(covered(650, 800)).toBeLessThan(50);
  });

  it('is one of several, not something between two', async () => {
    const width = 960;
    for (const name of ['sample3.jpg', 'sample6.jpg']) {
      const person = await find(await readRgb(sharp(join(DEMO, name)).resize(width)));
      // Both groups stand close together. When two people are detected as one, the shoulders are wider than the
      // head is above them.
      const middle = (at(person, 'leftShoulder').x + at(person, 'rightShoulder').x) / 2;
      expect(Math.abs(at(person, 'nose').x - middle), name).toBeLessThan(0.06 * width);
    }
  });

  it('is nobody where nobody is', async () => {
    for (const name of Object.keys(PLACES) as (keyof typeof PLACES)[]) {
      const [width, height] = [640, 360];
      const data = await background(name, width, height);
      expect(await finder.find({ width, height, channels: 3, data }), name).toBeUndefined();
    }
    const grey = new Uint8Array(64 * 48).fill(128);
    expect(await finder.find({ width: 64, height: 48, channels: 1, data: grey })).toBeUndefined();
  });

  it('is the same in every run', async () => {
    const picture = await readRgb(sharp(ADMIRAL));
    expect(await find(picture)).toEqual(await find(picture));
  });
});

describe('the mask', () => {
  it.each(Object.keys(CUTOUTS) as (keyof typeof CUTOUTS)[])('covers the %s and little else', async (name) => {
    const shares: number[] = [];
    for (const [place, share, across] of [
      ['studio', 0.9, 0.5],
      ['wall', 0.6, 0.3],
      ['bar', 0.6, 0.7],
    ] as const) {
      const { picture, truth } = await composite(name, place, { share, at: across });
      const { mask } = await find(picture);
      shares.push(iou(maskInPicture(mask, picture.width, picture.height), truth));
    }
    expect(Math.min(...shares)).toBeGreaterThan(0.8);
    expect(shares.reduce((sum, share) => sum + share, 0) / shares.length).toBeGreaterThan(0.9);
  });
});

describe('the points in disturbed squares', () => {
  it.each(Object.keys(CUTOUTS) as (keyof typeof CUTOUTS)[])('stay on the %s', async (name) => {
    const { picture } = await composite(name, 'studio', { share: 0.9, at: 0.5 });
    expect(await finder.unrest(picture, await find(picture))).toBeLessThan(0.03);
  });

  it('are other ones in each square without a person', async () => {
    const { picture } = await composite('dancer', 'bar', { share: 0.9, at: 0.5 });
    const person = await find(picture);
    const data = await background('bar', picture.width, picture.height);
    expect(await finder.unrest({ ...picture, channels: 3, data }, person)).toBeGreaterThan(0.06);
  });
});

describe('a person in a video', () => {
  it('is followed from frame to frame', async () => {
    let before: Person | undefined;
    const noses: number[] = [];
    for (let frame = 0; frame < 8; frame++) {
      const { picture, truth } = await composite('dancer', 'studio', { share: 0.8, at: 0.3 + 0.03 * frame });
      const person = await find(picture, before);
      noses.push(at(person, 'nose').x);
      expect(iou(maskInPicture(person.mask, picture.width, picture.height), truth)).toBeGreaterThan(0.85);
      // The finder searched where the previous frame said.
      if (before) expect(person.mask.region).toEqual(before.next);
      before = person;
    }
    const steps = noses.slice(1).map((x, i) => x - (noses[i] as number));
    for (const step of steps) expect(Math.abs(step - 0.03 * 960)).toBeLessThan(8);
  });

  it('is looked for anew when lost', async () => {
    const left = await composite('admiral', 'wall', { share: 0.5, at: 0.2 });
    const right = await composite('admiral', 'wall', { share: 0.5, at: 0.85 });
    const before = await find(left.picture);
    const person = await find(right.picture, before);
    expect(person.mask.region).not.toEqual(before.next);
    expect(at(person, 'nose').x - at(before, 'nose').x).toBeCloseTo(0.65 * 960, -2);
  });

  it.each(['wall', 'bar'] as const)('is gone when only the %s is left', async (place) => {
    const { picture } = await composite('admiral', place);
    const before = await find(picture);
    const { width, height } = picture;
    const empty: Picture = { width, height, channels: 3, data: await background(place, width, height) };
    expect(await finder.find(empty, before)).toBeUndefined();
  });
});

describe('what the networks say', () => {
  const ANCHORS = 2254;

  it('puts sights of one person together and keeps those of others', () => {
    const scores = new Float32Array(ANCHORS).fill(-100);
    const boxes = new Float32Array(ANCHORS * 12);
    /** Returns a detection at an anchor of the finest grid, with hips and reach relative to the anchor. */
    const see = (
      column: number,
      row: number,
      logit: number,
      hips: [number, number],
      reach: [number, number],
    ) => {
      const anchor = (row * 28 + column) * 2;
      scores[anchor] = logit;
      boxes.set([...hips, ...reach], anchor * 12 + 4);
    };
    see(5, 10, 3, [2, 20], [2, -60]);
    see(6, 10, 0, [-2, 20], [-2, -60]);
    see(20, 10, 1, [0, 20], [0, -60]);
    see(25, 10, -0.1, [0, 20], [0, -60]);
    const people = decodePeople(scores, boxes);
    expect(people).toHaveLength(2);
    const [first, second] = people;
    // The hips at 46 and 50 are weighted by their scores, 0.953 and 0.5.
    expect(first?.hips.x).toBeCloseTo((46 * 0.9526 + 50 * 0.5) / 1.4526, 2);
    expect(first?.hips.y).toBeCloseTo(104, 5);
    expect(second?.reach.x).toBeCloseTo(164, 5);
    expect(second?.reach.y).toBeCloseTo(24, 5);
  });

  it('is refined by a heat map where that is sure', () => {
    const heat = new Float32Array(64 * 64 * 39).fill(-30);
    const set = (x: number, y: number, logit: number) => {
      heat[(y * 64 + x) * 39 + 7] = logit;
    };
    expect(refine({ x: 100, y: 100 }, heat, 7)).toEqual({ x: 100, y: 100 });
    set(26, 25, 20);
    set(27, 25, 20);
    const moved = refine({ x: 100, y: 100 }, heat, 7);
    expect(moved.x).toBeCloseTo(106, 4);
    expect(moved.y).toBeCloseTo(100, 4);
    expect(refine({ x: 100, y: 100 }, heat, 8)).toEqual({ x: 100, y: 100 });
    expect(refine({ x: -3, y: 300 }, heat, 7)).toEqual({ x: -3, y: 300 });
  });
});
