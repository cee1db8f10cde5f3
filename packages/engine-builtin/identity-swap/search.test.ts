import { room } from '@semblance/testkit/engine-builtin/identity-swap/clips';
import {
  BLUE_SHIRT,
  drawFigure,
  type Head,
  loadHead,
  RED_SHIRT,
  STANDING,
} from '@semblance/testkit/engine-builtin/identity-swap/figure';
import type { PersonFinder } from '@semblance/vision/person';
import { openPersonFinder } from '@semblance/vision/person-finder';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { PersonTracker } from './search.ts';
import { skeletonOf } from './skeleton.ts';

const [W, H] = [640, 360];
const FRAMES = 40;

let finder: PersonFinder;
let heads: [Head, Head];

beforeAll(async () => {
  finder = await openPersonFinder();
  heads = await Promise.all([loadHead('astronaut'), loadHead('hopper')]);
}, 60_000);
afterAll(() => finder.close());

it('stays with the person when somebody else crosses in front', async () => {
  const tracker = new PersonTracker(finder);
  const empty = room(W, H);
  const misses: number[] = [];
  for (let i = 0; i < FRAMES; i++) {
    const own = { ...STANDING, x: 300 + 8 * Math.sin(i / 8), y: 0.95 * H, height: 0.8 * H };
    const other = { ...STANDING, x: 15 * i - 60, y: 0.97 * H, height: 0.86 * H };
    const behind = drawFigure(W, H, own, { dress: BLUE_SHIRT, head: heads[0] }, empty).rgb;
    const { rgb } = drawFigure(W, H, other, { dress: RED_SHIRT, head: heads[1] }, behind);
    const person = await tracker.track({ width: W, height: H, channels: 3, data: rgb });
    if (person) misses.push(Math.abs(skeletonOf(person.points).shoulders.x - own.x));
    // Afterwards the person is found again.
    else expect(i).toBeLessThan(34);
  }
  expect(misses.length).toBeGreaterThan(0.6 * FRAMES);
  expect(Math.max(...misses)).toBeLessThan(30);
}, 60_000);
