import { fillPolygon, type Plane, plane } from '@semblance/vision/plane/plane';
import { emptyMap } from '@semblance/vision/plane/warp-map';
import { expect, it } from 'vitest';
import type { FaceZones } from './face-zones.ts';
import { withForehead } from './forehead.ts';
import type { SourceFace } from './source-face.ts';

const SIZE = 100;

function box(left: number, top: number, right: number, bottom: number, value = 1): Plane {
  const out = plane(SIZE, SIZE);
  fillPolygon(out, [left, top, right, top, right, bottom, left, bottom], value);
  return out;
}

/**
 * Returns the result for a face from row 10 to row 90 that is always replaced below row 40. The source shows the
 * same places.
 */
function joined(clean: { target: Plane; source: Plane }): (x: number, y: number) => number {
  const zones = { face: box(10, 10, 90, 90), replaced: box(10, 40, 90, 90) } as FaceZones;
  const direct = emptyMap(SIZE, SIZE);
  for (let i = 0; i < SIZE * SIZE; i++) {
    direct.x.data[i] = (i % SIZE) + 0.5;
    direct.y.data[i] = Math.floor(i / SIZE) + 0.5;
    direct.covered.data[i] = 1;
  }
  const source = { visibleScale: 1, clean: clean.source } as SourceFace;
  const area = withForehead(zones, direct, { source, clean: clean.target }, 80);
  return (x, y) => area.data[y * SIZE + x] as number;
}

const all = box(0, 0, SIZE, SIZE);

it('takes the whole forehead when both faces show bare skin there, and nothing beyond the face', () => {
  const at = joined({ target: all, source: all });
  expect(at(50, 15)).toBe(1);
  expect(at(50, 60)).toBe(1);
  expect(at(50, 5)).toBe(0);
});

it('stops below a fringe of either face', () => {
  const belowFringe = box(0, 25, SIZE, SIZE);
  for (const clean of [
    { target: all, source: belowFringe },
    { target: belowFringe, source: all },
  ]) {
    const at = joined(clean);
    expect(at(50, 30)).toBe(1);
    expect(at(50, 20)).toBe(0);
  }
});

it('takes no patch of skin above a fringe, and no narrow gap in it', () => {
  const aboveFringe = box(0, 0, SIZE, 25);
  expect(joined({ target: all, source: aboveFringe })(50, 15)).toBe(0);
  const gap = box(46, 0, 54, 40);
  expect(joined({ target: all, source: gap })(50, 20)).toBe(0);
});

it('always takes what lies below the forehead', () => {
  const at = joined({ target: plane(SIZE, SIZE), source: plane(SIZE, SIZE) });
  expect(at(50, 60)).toBe(1);
  expect(at(50, 38)).toBe(0);
});
