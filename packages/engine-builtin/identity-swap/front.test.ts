import { walker } from '@semblance/testkit/engine-builtin/identity-swap/clips';
import {
  BLUE_SHIRT,
  drawFigure,
  figurePoints,
  type Stance,
} from '@semblance/testkit/engine-builtin/identity-swap/figure';
import { distanceInside, type Plane, plane } from '@semblance/vision/plane/plane';
import { describe, expect, it } from 'vitest';
import { ThingsInFront } from './front.ts';
import { skeletonOf } from './skeleton.ts';

const [W, H] = [640, 360];
const NO_HEAD = { side: 2, data: new Uint8Array(16) };

/** Returns the distance of each chroma pixel from a figure, part of whose mask is hidden. */
function distanceOf(stance: Stance, isHidden: (x: number, y: number) => boolean): Plane {
  const { mask } = drawFigure(
    ...([W, H, stance] as const),
    { dress: BLUE_SHIRT, head: NO_HEAD },
    new Uint8Array(W * H * 3),
  );
  const free = plane(W / 2, H / 2);
  for (let y = 0; y < H / 2; y++) {
    for (let x = 0; x < W / 2; x++) {
      const seen = (mask[2 * y * W + 2 * x] as number) > 127 && !isHidden(2 * x, 2 * y);
      free.data[(y * W) / 2 + x] = seen ? 0 : 1;
    }
  }
  return distanceInside(free, false);
}

const at = (found: Plane | undefined, x: number, y: number): number =>
  found?.data[((y >> 1) * W) / 2 + (x >> 1)] ?? 0;

describe('things in front of a person', () => {
  const walk = walker(W, H);
  const stance = walk(1);
  const skeleton = skeletonOf(figurePoints(stance));
  const x = Math.round(stance.x);
  const nothing = () => false;

  it('are where trunk and legs must be and the mask is not: a desk, with what lies beside the person', () => {
    const top = 180;
    const found = new ThingsInFront().look(
      distanceOf(stance, (_x, y) => y > top),
      skeleton,
    );
    expect(at(found, x, top + 30)).toBeGreaterThan(0.95);
    expect(at(found, x, top + 8)).toBeGreaterThan(0.5);
    expect(at(found, x + 30, top + 40)).toBeGreaterThan(0.95);
    for (const up of [12, 40, 70]) expect(at(found, x, top - up)).toBe(0);
  });

  it('are held before the chest, too', () => {
    const hidden = (px: number, py: number): boolean => Math.abs(px - x) < 36 && py > 110 && py < 170;
    const found = new ThingsInFront().look(distanceOf(stance, hidden), skeleton);
    expect(at(found, x, 140)).toBeGreaterThan(0.95);
    expect(at(found, x, 85)).toBe(0);
    expect(at(found, x, 200)).toBe(0);
  });

  it('come and go over some frames: a single mask with a gap is not believed', () => {
    const [whole, cut] = [distanceOf(stance, nothing), distanceOf(stance, (_x, y) => y > 180)];
    const things = new ThingsInFront();
    expect(things.look(whole, skeleton)).toBeUndefined();
    expect(at(things.look(cut, skeleton), x, 220)).toBeLessThan(0.3);
    for (let i = 0; i < 20; i++) things.look(cut, skeleton);
    expect(at(things.look(cut, skeleton), x, 220)).toBeGreaterThan(0.9);
  });

  it('are not seen where there are none, whatever the pose', () => {
    for (let t = 0; t < 4; t += 0.23) {
      const pose = walk(t);
      const found = new ThingsInFront().look(distanceOf(pose, nothing), skeletonOf(figurePoints(pose)));
      expect(found).toBeUndefined();
    }
  });
});
