import { openPortraits } from '@semblance/testkit/engine-builtin/portraits';
import { ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { LEFT_BROW, LEFT_EYE, LIPS_OUTER, RIGHT_BROW } from '@semblance/vision/face-regions';
import { beforeAll, describe, expect, it } from 'vitest';
import { featureMask, type Wearing } from './feature-mask.ts';
import { ALL_SHOWN } from './shown-features.ts';
import { flatten } from './source-face.ts';

let points: Float32Array;
let size: { width: number; height: number };
let faceWidth: number;

beforeAll(async () => {
  const [portrait] = await openPortraits(ASTRONAUT);
  if (!portrait) throw new Error('no portrait');
  points = flatten(portrait.face.points);
  size = portrait.picture;
  faceWidth = portrait.face.width;
});

/** Returns the mask at some mesh points. */
function at(group: readonly number[], wearing: Wearing, shown = ALL_SHOWN): number[] {
  const mask = featureMask(points, size, faceWidth, wearing, shown);
  return group.map((i) => {
    const x = Math.floor(points[i * 2] as number);
    const y = Math.floor(points[i * 2 + 1] as number);
    return mask.data[y * size.width + x] as number;
  });
}

const all = (values: readonly number[], value: number): boolean => values.every((each) => each === value);
const CHEEKS = [50, 205, 280, 425];
const PHILTRUM = [164];
const NASAL_ROOT = [6];

describe('featureMask', () => {
  const plain = { glasses: false, beard: 0, brows: 1 };

  it('takes eyes, brows, nose and lips with the skin beside them, and no cheeks', () => {
    for (const group of [LEFT_EYE, LEFT_BROW, LIPS_OUTER, PHILTRUM, NASAL_ROOT])
      expect(all(at(group, plain), 1)).toBe(true);
    expect(all(at([...CHEEKS, 10, 152], plain), 0)).toBe(true);
  });

  it('leaves out what glasses cover, and keeps the openings of the eyes', () => {
    const glasses = { ...plain, glasses: true };
    expect(all(at([...LEFT_BROW, ...NASAL_ROOT], glasses), 0)).toBe(true);
    expect(all(at([...LEFT_EYE, ...LIPS_OUTER], glasses), 1)).toBe(true);
  });

  it('keeps the eyes without their brows', () => {
    const browless = { ...plain, brows: 0 };
    expect(all(at([63, 105, 66, 293, 334, 296], browless), 0)).toBe(true);
    expect(all(at([...LEFT_EYE, ...LIPS_OUTER, ...NASAL_ROOT], browless), 1)).toBe(true);
    expect(at([334], { ...plain, brows: 0.5 })).toEqual([0.5]);
  });

  it('leaves out what is hidden', () => {
    const masked = { ...ALL_SHOWN, mouth: 0, nose: 0.5 };
    expect(all(at([17, 84, 314], plain, masked), 0)).toBe(true);
    expect(at([4], plain, masked)).toEqual([0.5]);
    expect(all(at([...LEFT_EYE, ...LEFT_BROW], plain, masked), 1)).toBe(true);
    expect(all(at(LEFT_EYE, plain, { ...ALL_SHOWN, left: 0, leftBrow: 0 }), 0)).toBe(true);
  });

  it('takes brows without the eyes below them', () => {
    const glance = { ...ALL_SHOWN, right: 0, left: 0 };
    expect(all(at([...LEFT_BROW, ...RIGHT_BROW], plain, glance), 1)).toBe(true);
    expect(all(at([145, 374], plain, glance), 0)).toBe(true);
    expect(all(at(LEFT_BROW, { ...plain, glasses: true }, glance), 0)).toBe(true);
  });

  it('leaves a beard whole, as surely as there is one', () => {
    expect(at(PHILTRUM, { ...plain, beard: 1 })).toEqual([0]);
    expect(at(PHILTRUM, { ...plain, beard: 0.5 })).toEqual([0.5]);
    expect(all(at(LIPS_OUTER, { ...plain, beard: 1 }), 1)).toBe(true);
  });
});
