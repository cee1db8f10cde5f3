import { withMicrophone } from '@semblance/testkit/engine-builtin/microphone';
import { subjectOf } from '@semblance/testkit/engine-builtin/motion/drivers';
import { ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { FaceFinder } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';
import { openSession } from '@semblance/vision/models/session';
import { beforeAll, describe, expect, it } from 'vitest';
import { stillFindings } from '../findings/hints.ts';
import { shapeLips } from './lips.ts';
import { lookAround, type Seen } from './look.ts';
import { drawPortrait, type Portrait, posedPoints, REST } from './portrait.ts';
import { preparePortrait } from './prepare.ts';

let finder: FaceFinder;
let face: Face;
let bare: Seen;
let seen: Seen;
let portrait: Portrait;
let lips: { x: number; y: number; iod: number };

beforeAll(async () => {
  const names = ['blazeface', 'facemesh', 'face_cover'] as const;
  const [blazeface, facemesh, face_cover] = await Promise.all(names.map(openSession));
  if (!blazeface || !facemesh) throw new Error('the networks are missing');
  finder = new FaceFinder({ blazeface, facemesh, ...(face_cover ? { face_cover } : {}) });
  const subject = await subjectOf(finder, ASTRONAUT, 0, 480);
  face = subject.face;
  bare = await lookAround(subject.picture, face, finder, () => undefined);
  const [x, y] = [face.points[13 * 3] as number, face.points[13 * 3 + 1] as number];
  const iod = preparePortrait(subject.picture, face).frame.iod;
  lips = { x, y, iod };
  const picture = { ...subject.picture, data: await withMicrophone(subject.picture, lips) };
  seen = await lookAround(picture, face, finder, () => undefined);
  portrait = preparePortrait(picture, face, seen);
});

describe('something in front of the face of a still', () => {
  it('is seen, and told in a hint; a bare face has none', () => {
    expect(bare.covered).toMatchObject({ mouth: false, eyes: [false, false] });
    expect(seen.covered).toMatchObject({ mouth: true, eyes: [false, false] });
    const input = { role: 'image', name: 'portrait' };
    const found = (covered: Seen['covered']) =>
      stillFindings({ faces: [face], left: [] }, input, { covered }).hints.filter(
        ({ code }) => code === 'face_covered',
      );
    expect(found(bare.covered)).toEqual([]);
    expect(found(seen.covered)).toMatchObject([{ input: 'image' }]);
  });

  it('stays whole when the mouth behind it opens', () => {
    const expression = { lips: shapeLips(portrait.rig.lips, { open: 0.35, spread: 0, round: 0 }) };
    const frame = drawPortrait(portrait, { ...REST, expression });
    const { x, y, iod } = lips;
    for (let row = Math.ceil(y - 0.4 * iod); row < y + 0.4 * iod; row++) {
      for (let column = Math.ceil(x - 0.3 * iod); column < x + 0.3 * iod; column++) {
        const i = row * portrait.width + column;
        expect(Math.abs((frame[i] as number) - (portrait.still[i] as number))).toBeLessThan(12);
      }
    }
  });

  it('turns with the head as a plane', () => {
    const turned = posedPoints(portrait, { ...REST, yaw: 0.3 });
    const { covered, shape } = portrait;
    const under = [...(covered?.points.keys() ?? [])].filter((v) => (covered?.points[v] ?? 0) > 0.95);
    expect(under.length).toBeGreaterThan(10);
    // On a plane, places in the turned picture are an affine map of those at rest.
    const columns = under.map((v) => [shape.rest[v * 3] as number, shape.rest[v * 3 + 1] as number, 1]);
    const values = under.map((v) => turned[v * 2] as number);
    expect(worstOfFit(columns, values) / portrait.frame.iod).toBeLessThan(0.02);
  });
});

/** Returns the largest residual of a least-squares fit of three parameters. */
function worstOfFit(rows: number[][], values: number[]): number {
  const normal = [0, 1, 2].map((a) => [0, 1, 2].map((b) => sum(rows, (row) => at(row, a) * at(row, b))));
  const right = [0, 1, 2].map((a) => sum(rows, (row, k) => at(row, a) * at(values, k)));
  const determinant = (m: number[][]): number =>
    at(m[0], 0) * (at(m[1], 1) * at(m[2], 2) - at(m[1], 2) * at(m[2], 1)) -
    at(m[0], 1) * (at(m[1], 0) * at(m[2], 2) - at(m[1], 2) * at(m[2], 0)) +
    at(m[0], 2) * (at(m[1], 0) * at(m[2], 1) - at(m[1], 1) * at(m[2], 0));
  const whole = determinant(normal);
  const found = [0, 1, 2].map(
    (c) => determinant(normal.map((row, r) => row.map((v, k) => (k === c ? at(right, r) : v)))) / whole,
  );
  return Math.max(
    ...rows.map((row, k) => Math.abs(at(values, k) - sum(found, (one, c) => one * at(row, c)))),
  );
}

const at = (list: readonly number[] | undefined, i: number): number => list?.[i] as number;
const sum = <T>(list: readonly T[], value: (one: T, k: number) => number): number =>
  list.reduce((total, one, k) => total + value(one, k), 0);
