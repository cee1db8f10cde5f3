import { openPortraits, type Portrait } from '@semblance/testkit/engine-builtin/portraits';
import { ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { LIPS_INNER, LIPS_OUTER } from '@semblance/vision/face-regions';
import { expect, it } from 'vitest';
import { landmarkDistance } from './landmark-judge.ts';

it('tells how far a mesh is from the landmarks of another detector, where they are seen', async () => {
  const [{ picture, face }] = (await openPortraits(ASTRONAUT)) as [Portrait];
  const distance = await landmarkDistance();
  const lips: ReadonlySet<number> = new Set([...LIPS_INNER, ...LIPS_OUTER]);
  const points = face.points.slice();
  for (const i of lips) points[i * 3 + 1] = (points[i * 3 + 1] as number) + 0.15 * face.width;
  const moved = { ...face, points };
  const above = (index: number): boolean => !lips.has(index);
  expect(await distance(picture, moved)).toBeGreaterThan((await distance(picture, face)) + 2);
  expect(await distance(picture, moved, above)).toBeCloseTo(await distance(picture, face, above), 1);
});
