import { join } from 'node:path';
import type { Picture } from '@semblance/engine-api/picture';
import { cropsOf, type Face } from '@semblance/vision/face-mesh';
import { beforeAll, expect, it } from 'vitest';
import { ROOT, readRgb } from '../../photo-swap/portraits.ts';
import { type Judges, openJudges } from '../judged-case.ts';
import { makeUp, painted } from './art.ts';
import { childsDrawing } from './drawings.ts';

let judges: Judges;
let picture: Picture;
let face: Face;

beforeAll(async () => {
  judges = await openJudges();
  picture = await readRgb(join(ROOT, 'media', 'astronaut.png'));
  [face] = (await judges.finder.find(picture, () => undefined)) as [Face];
});

/** Returns the colour in the middle of mesh points. */
const at = ({ width, data }: Picture, points: readonly number[]): number[] => {
  const [x, y] = [0, 1].map((k) =>
    Math.round(
      points.reduce((sum, point) => sum + (face.points[point * 3 + k] as number), 0) / points.length,
    ),
  ) as [number, number];
  return [0, 1, 2].map((c) => data[(y * width + x) * 3 + c] as number);
};

it('make-up colours lips and lids, and neither teeth nor forehead', () => {
  const after = makeUp(picture, face, 3);
  const changed = (...points: number[]): number =>
    Math.max(...at(after, points).map((v, c) => Math.abs(v - (at(picture, points)[c] as number))));
  expect(Math.min(changed(0), changed(17), changed(27), changed(257))).toBeGreaterThan(20);
  expect(Math.max(changed(13, 14), changed(151))).toBeLessThan(8);
});

it('a painting has even strokes, and is still a face', async () => {
  const after = await painted(picture, face);
  const [found] = await judges.finder.find(after, () => undefined);
  expect(found).toBeDefined();
  expect(await judges.finder.coverOf(cropsOf(after), found as Face)).toBeDefined();
});

it("a child's drawing is no face, and each seed gives another", async () => {
  const drawings = await Promise.all(Array.from({ length: 12 }, (_, seed) => childsDrawing(seed)));
  for (const drawing of drawings) expect(await judges.finder.find(drawing, () => undefined)).toEqual([]);
  expect(drawings[0]?.data).not.toEqual(drawings[1]?.data);
});
