import { type Subject, subjectOf } from '@semblance/testkit/engine-builtin/motion/drivers';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { yuvToRgb } from '@semblance/testkit/engine-builtin/yuv-to-rgb';
import { FaceFinder } from '@semblance/vision/face-finder';
import { openSession } from '@semblance/vision/models/session';
import { beforeAll, describe, expect, it } from 'vitest';
import { refitFace } from '../motion-transfer/face-tracker.ts';
import { DriverReference, type Motion } from '../motion-transfer/measure.ts';
import { middleGap, shapeLips } from './lips.ts';
import { drawPortrait, type Portrait, type Pose, posedPoints, REST } from './portrait.ts';
import { preparePortrait } from './prepare.ts';

let finder: FaceFinder;
let astronaut: Subject;
let portrait: Portrait;

beforeAll(async () => {
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  finder = new FaceFinder({ blazeface, facemesh });
  astronaut = await subjectOf(finder, ASTRONAUT, 0, 480);
  portrait = preparePortrait(astronaut.picture, astronaut.face);
});

/** Returns the motion that the mesh measures in a pose. */
async function seen(pose: Partial<Pose>, of = portrait, subject = astronaut): Promise<Motion> {
  const frame = { width: of.width, height: of.height, data: drawPortrait(of, { ...REST, ...pose }) };
  const near = await refitFace(finder, frame, subject.face, 'once');
  const face = await refitFace(finder, frame, near, 'both-ways');
  return new DriverReference(subject.face.points).measure(face.points);
}

function difference(a: Uint8Array, b: Uint8Array, from: number, to: number): { mean: number; most: number } {
  let sum = 0;
  let most = 0;
  for (let i = from; i < to; i++) {
    const d = Math.abs((a[i] as number) - (b[i] as number));
    sum += d;
    most = Math.max(most, d);
  }
  return { mean: sum / (to - from), most };
}

describe('a portrait', () => {
  it('at rest is the still', () => {
    const { mean } = difference(drawPortrait(portrait, REST), portrait.still, 0, portrait.still.length);
    expect(mean).toBeLessThan(0.02);
  });

  it('leaves the still little by little when it begins to move', () => {
    const away = (dx: number): number =>
      difference(drawPortrait(portrait, { ...REST, dx }), portrait.still, 0, portrait.still.length).mean;
    expect(away(0.002)).toBeLessThan(0.25 * away(0.02));
    expect(away(0.02)).toBeLessThan(away(0.06));
  });

  it('shows no dotted line on the clothes where the moving part ends', () => {
    const { width, height, still, shape } = portrait;
    const drawn = drawPortrait(portrait, { ...REST, dx: 0.05 });
    const apart = (luma: Uint8Array, i: number): number => {
      const around = [-width - 1, -width, -width + 1, -1, 1, width - 1, width, width + 1].map(
        (step) => luma[i + step] as number,
      );
      return Math.max(
        0,
        (luma[i] as number) - Math.max(...around),
        Math.min(...around) - (luma[i] as number),
      );
    };
    const chin = shape.rest[152 * 3 + 1] as number;
    let points = 0;
    for (let y = Math.round(chin + 0.45 * portrait.frame.iod); y < height - 4; y++) {
      for (let x = 4; x < width - 4; x++) {
        const i = y * width + x;
        const here = apart(drawn, i);
        if (here <= 5) continue;
        const near = Array.from({ length: 49 }, (_, k) => i + (Math.floor(k / 7) - 3) * width + (k % 7) - 3);
        if (here - Math.max(...near.map((at) => apart(still, at))) > 5) points++;
      }
    }
    expect(points).toBeLessThan(10);
  });

  it('leaves nothing of its mouth behind when its head moves', () => {
    const { background, shape } = portrait;
    const { y } = background;
    const lips = [13, 14, 61, 291].map((v) => [shape.rest[v * 3] as number, shape.rest[v * 3 + 1] as number]);
    const [left, right] = [lips[2]?.[0] as number, lips[3]?.[0] as number];
    const row = Math.round(((lips[0]?.[1] as number) + (lips[1]?.[1] as number)) / 2);
    const values = [...y.data.subarray(row * y.width + Math.round(left), row * y.width + Math.round(right))];
    expect(Math.max(...values) - Math.min(...values)).toBeLessThan(60);
  });

  it('keeps the background where it is, whatever the head does, and the border of the picture', () => {
    const frame = drawPortrait(portrait, { ...REST, yaw: 0.4, roll: 0.3, pitch: -0.2, dx: 0.3, scale: 1.1 });
    const { width, height } = portrait;
    expect(difference(frame, portrait.still, (height - 2) * width, height * width).most).toBeLessThanOrEqual(
      1,
    );
    // The flag at the left, beside head and shoulders.
    for (let y = 0; y < 0.3 * height; y++) {
      expect(difference(frame, portrait.still, y * width, y * width + 60).most).toBeLessThanOrEqual(1);
    }
  });

  it('moves its shoulders by a share of the way of the head, and by a breath', () => {
    const { shape, frame } = portrait;
    const rest = posedPoints(portrait, REST);
    const most = (pose: Partial<Pose>, axis: 0 | 1): number => {
      const moved = posedPoints(portrait, { ...REST, ...pose });
      let far = 0;
      shape.shoulders.forEach((share, v) => {
        if (share * (1 - (shape.follow[v] as number)) < 0.3) return;
        const by = ((moved[v * 2 + axis] as number) - (rest[v * 2 + axis] as number)) / frame.iod;
        if (Math.abs(by) > Math.abs(far)) far = by;
      });
      return far;
    };
    const aside = posedPoints(portrait, { ...REST, dx: 0.3 });
    const head = ((aside[4 * 2] as number) - (rest[4 * 2] as number)) / frame.iod;
    expect(head).toBeCloseTo(0.3, 3);
    const still = [...shape.shoulders.keys()].filter((v) => (shape.follow[v] as number) < 0.01);
    for (const v of still) {
      const by = ((aside[v * 2] as number) - (rest[v * 2] as number)) / frame.iod;
      expect(by).toBeCloseTo(0.3 * 0.4 * (shape.shoulders[v] as number), 2);
    }
    expect(Math.max(...still.map((v) => shape.shoulders[v] as number))).toBeGreaterThan(0.5);
    expect(most({ breath: 0.04 }, 1)).toBeLessThan(-0.02);
    expect(most({ breath: 0.04 }, 1)).toBeGreaterThanOrEqual(-0.041);
    expect(most({ breath: 0.04 }, 0)).toBe(0);
  });

  it.each([
    ['yaw', 0.35],
    ['yaw', -0.35],
    ['pitch', 0.2],
    ['pitch', -0.2],
    ['roll', 0.3],
    ['roll', -0.3],
  ] as const)('is seen to turn by %s %d', async (angle, by) => {
    const motion = await seen({ [angle]: by });
    expect(motion[angle] / by).toBeGreaterThan(0.7);
    expect(motion[angle] / by).toBeLessThan(1.35);
    for (const other of ['yaw', 'pitch', 'roll'] as const) {
      if (other !== angle) expect(Math.abs(motion[other])).toBeLessThan(0.15);
    }
  });

  it.each([
    ['teeth shown in the still', ASTRONAUT],
    ['a mouth closed in the still', ADMIRAL],
  ])('opens and closes its mouth: %s', async (_, file) => {
    const subject = await subjectOf(finder, file, 0, 480);
    const made = preparePortrait(subject.picture, subject.face);
    const gaps: number[] = [];
    for (const open of [0, 0.12, 0.24, 0.36]) {
      const lips = shapeLips(made.rig.lips, { open, spread: 0, round: 0 });
      gaps.push(middleGap((await seen({ expression: { lips } }, made, subject)).lips));
    }
    expect(gaps).toEqual([...gaps].sort((a, b) => a - b));
    expect(gaps[0]).toBeLessThan(0.06);
    expect(gaps[3]).toBeGreaterThan(0.22);
  });

  it('opens a mouth that the still shows quite closed onto teeth above, not beside, the dark', async () => {
    const subject = await subjectOf(finder, ADMIRAL, 0, 480);
    const points = subject.face.points.slice();
    for (const [lower, upper] of [95, 88, 178, 87, 14, 317, 402, 318, 324].entries()) {
      const above = [191, 80, 81, 82, 13, 312, 311, 310, 415][lower] as number;
      points.copyWithin(upper * 3, above * 3, above * 3 + 3);
    }
    const made = preparePortrait(subject.picture, { ...subject.face, points });
    const lips = shapeLips(made.rig.lips, { open: 0.4, spread: 0, round: 0 });
    const frame = drawPortrait(made, { ...REST, expression: { lips } });
    const [x, y] = [made.shape.rest[13 * 3] as number, made.shape.rest[13 * 3 + 1] as number];
    const { iod } = made.frame;
    /** Returns how far below the line of the lips the dark of the mouth begins, in IOD. */
    const darkFrom = (aside: number): number => {
      const column = Math.round(x + aside * iod);
      for (let row = Math.round(y - 0.1 * iod); row < y + 0.6 * iod; row++) {
        if ((frame[row * made.width + column] as number) < 45) return (row - y) / iod;
      }
      return Infinity;
    };
    expect(Math.abs(darkFrom(-0.12) - darkFrom(0.12))).toBeLessThan(0.05);
    expect(Math.abs(darkFrom(0) - darkFrom(0.12))).toBeLessThan(0.05);
    expect(darkFrom(0)).toBeGreaterThan(0);
  });

  it('opens the mouth of a grey picture onto grey', () => {
    const grey = astronaut.picture.data.slice();
    for (let i = 0; i < grey.length; i += 3) grey.fill(grey[i + 1] as number, i, i + 3);
    const made = preparePortrait({ ...astronaut.picture, data: grey }, astronaut.face);
    const lips = shapeLips(made.rig.lips, { open: 0.4, spread: 0, round: 0 });
    const frame = drawPortrait(made, { ...REST, expression: { lips } });
    const chroma = frame.subarray(made.width * made.height);
    const most = chroma.reduce((far, value) => Math.max(far, Math.abs(value - 128)), 0);
    expect(most).toBeLessThanOrEqual(1);
  });

  it('shows nothing of the background at the edge of an open mouth', () => {
    const lips = shapeLips(portrait.rig.lips, { open: 0.4, spread: 0, round: 0 });
    const pose = { ...REST, expression: { lips } };
    const usual = drawPortrait(portrait, pose);
    const { background } = portrait;
    const white = { ...background.y, data: new Uint8Array(background.y.data.length).fill(235) };
    const before = drawPortrait({ ...portrait, background: { ...background, y: white } }, pose);
    const { iod } = portrait.frame;
    const [x, y] = [portrait.shape.rest[13 * 3] as number, portrait.shape.rest[13 * 3 + 1] as number];
    const [left, right] = [Math.round(x - 0.4 * iod), Math.round(x + 0.4 * iod)];
    for (let row = Math.round(y - 0.2 * iod); row < y + 0.5 * iod; row++) {
      const from = row * portrait.width;
      expect(difference(before, usual, from + left, from + right).most).toBe(0);
    }
  });

  it('closes its eyes with skin: no dark of the eye is left, and a half closed eye keeps its size', () => {
    const darkest = (eyes: [number, number]): number => {
      const frame = drawPortrait(portrait, { ...REST, expression: { eyes } });
      const x = Math.round(portrait.shape.rest[468 * 0 + 159 * 3] as number);
      const top = Math.round(portrait.shape.rest[159 * 3 + 1] as number) + 1;
      const bottom = Math.round(portrait.shape.rest[145 * 3 + 1] as number) - 2;
      let least = 255;
      for (let y = top; y <= bottom; y++) {
        for (let dx = -2; dx <= 2; dx++)
          least = Math.min(least, frame[y * portrait.width + x + dx] as number);
      }
      return least;
    };
    const open = darkest([1, 1]);
    expect(open).toBeLessThan(70);
    expect(darkest([0, 0])).toBeGreaterThan(open + 15);
  });

  it('shows one head only when it has moved aside', async () => {
    for (const dx of [-0.5, 0.5]) {
      const frame = drawPortrait(portrait, { ...REST, dx, roll: dx / 2 });
      const { width, height } = portrait;
      const found = await finder.find(
        { width, height, channels: 3, data: yuvToRgb(frame, width, height) },
        () => undefined,
      );
      expect(found).toHaveLength(1);
    }
  });

  it('draws the same frame over whatever was drawn before, however the head was moved', () => {
    const pose = { ...REST, yaw: 0.2, expression: { eyes: [0.4, 0.4] as const } };
    const fresh = drawPortrait(portrait, pose);
    for (const before of [
      { yaw: -0.4, roll: 0.4 },
      { dx: 0.5, scale: 1.25 },
      { dx: -0.5, dy: -0.5, roll: -0.8 },
    ]) {
      const used = drawPortrait(portrait, { ...REST, ...before });
      expect(Buffer.compare(drawPortrait(portrait, pose, used), fresh)).toBe(0);
    }
  });

  it('needs a picture of even size', () => {
    const picture = { ...astronaut.picture, width: astronaut.picture.width - 1 };
    expect(() => preparePortrait(picture, astronaut.face)).toThrow(RangeError);
  });
});
