import { drawnWidth } from '@semblance/engine-builtin/swap/small-face';
import { prepareSource } from '@semblance/engine-builtin/swap/source-face';
import { swapFace } from '@semblance/engine-builtin/swap/swap-face';
import { openPortraits, type Portrait } from '@semblance/testkit/engine-builtin/portraits';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { beforeAll, expect, it } from 'vitest';
import { movedAlone, placedLike } from './drawn-swap.ts';

let [astronaut, admiral]: Portrait[] = [];

beforeAll(async () => {
  [astronaut, admiral] = (await openPortraits(ASTRONAUT, ADMIRAL)) as [Portrait, Portrait];
});

/** Returns the mean difference of two pictures in an area around a mesh point, in levels. */
function differenceAt(a: Uint8Array, b: Uint8Array, point: number, reach: number): number {
  const { picture, face } = astronaut as Portrait;
  const [x, y] = [face.points[point * 3] as number, face.points[point * 3 + 1] as number].map(Math.round);
  let [sum, count] = [0, 0];
  for (let dy = -reach; dy <= reach; dy++)
    for (let dx = -reach; dx <= reach; dx++, count++) {
      const i = (((y as number) + dy) * picture.width + (x as number) + dx) * 3;
      sum += Math.abs((a[i] as number) - (b[i] as number));
    }
  return sum / count;
}

const CHIN = 152;
const NOSE = 4;
const EYE = 159;

it('moves the target alone, or draws all but the jaw', () => {
  const { picture, face } = astronaut as Portrait;
  const source = prepareSource(
    (admiral as Portrait).picture,
    (admiral as Portrait).face,
    drawnWidth(face.width),
  );
  const after = { ...picture, data: picture.data.slice() };
  swapFace(after, face, source);
  const { moved, still, placed, drawn, shape } = movedAlone({ picture, face }, source, undefined);
  const [before, jaw, rest, whole] = [picture, moved, still, after].map(({ data }) => data as Uint8Array) as [
    Uint8Array,
    Uint8Array,
    Uint8Array,
    Uint8Array,
  ];
  expect(differenceAt(jaw, before, CHIN, 12)).toBeGreaterThan(4);
  // The eyes move, and keep their colours.
  expect(differenceAt(jaw, before, EYE, 8)).toBeGreaterThan(1);
  expect(differenceAt(jaw, before, EYE, 8)).toBeLessThan(0.8 * differenceAt(whole, before, EYE, 8));
  expect(differenceAt(rest, whole, NOSE, 12)).toBe(0);
  expect(differenceAt(rest, before, NOSE, 12)).toBeGreaterThan(4);
  // Below the chin only the jaw has moved.
  expect(differenceAt(jaw, whole, CHIN, 12)).toBeLessThan(0.5 * differenceAt(jaw, before, CHIN, 12));
  expect(placed.points).not.toEqual(face.points);
  const far = placed.points.map((value, i) => Math.abs(value - (face.points[i] as number)));
  expect(Math.max(...far)).toBeLessThan(0.12 * face.width);
  const like = placedLike(face, source, shape).points;
  const apart = like.map((value, i) => (i % 3 === 2 ? 0 : Math.abs(value - (placed.points[i] as number))));
  expect(Math.max(...apart)).toBeLessThan(0.03 * face.width);
  const drawnAt = (point: number, down: number): number => {
    const [x, y] = [face.points[point * 3] as number, face.points[point * 3 + 1] as number].map(Math.round);
    return drawn.data[((y as number) + down) * picture.width + (x as number)] as number;
  };
  expect(drawnAt(NOSE, 0)).toBe(1);
  expect(drawnAt(CHIN, Math.round(0.2 * face.width))).toBe(0);
});
