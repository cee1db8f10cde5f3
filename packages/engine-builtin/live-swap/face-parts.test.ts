import { POINTS } from '@semblance/vision/face-mesh';
import { LEFT_EYE, LIPS_INNER, LIPS_OUTER } from '@semblance/vision/face-regions';
import { expect, it } from 'vitest';
import { LOOK_STEP, type Look } from '../video-swap/keys.ts';
import { FaceParts } from './face-parts.ts';

/** A mesh of 22 columns, from left to right and from top to bottom. */
const points = Float32Array.from({ length: POINTS * 3 }, (_, i) => {
  const point = Math.floor(i / 3);
  return i % 3 === 0 ? point % 22 : i % 3 === 1 ? Math.floor(point / 22) : 0;
});

/** Returns the look of a face in which some points have the brightness `change`, relative to the mean. */
function look(change: (x: number, y: number, index: number) => number): Look {
  const values = Float32Array.from({ length: POINTS / LOOK_STEP }, (_, i) => {
    const index = i * LOOK_STEP;
    return change(index % 22, Math.floor(index / 22), index);
  });
  return { values, ...coloured(() => 128), level: 100, yaw: 0, width: 100 };
}

/** Returns both colour values of all points, and their means. */
function coloured(at: (x: number, y: number) => number) {
  const us = Uint8Array.from({ length: POINTS / LOOK_STEP }, (_, i) => {
    return at((i * LOOK_STEP) % 22, Math.floor((i * LOOK_STEP) / 22));
  });
  return { us, vs: us, u: us.reduce((a, b) => a + b) / us.length, v: us.reduce((a, b) => a + b) / us.length };
}

const SPEAKING: ReadonlySet<number> = new Set([...LIPS_INNER, ...LIPS_OUTER, ...LEFT_EYE]);
const parts = new FaceParts(points);
const plain = look(() => 1);

it.each<[string, Look, string]>([
  ['nothing changed', plain, 'no'],
  ['a shadow fell on one side', look((x) => (x < 11 ? 0.85 : 1.15)), 'no'],
  ['single wrinkles changed a lot', look((x, y) => ((x + 3 * y) % 14 === 0 ? 0.1 : 1)), 'no'],
  ['somebody speaks and blinks', look((_x, _y, index) => (SPEAKING.has(index) ? 0.2 : 1)), 'no'],
  ['one part became dark', look((x, y) => (x < 5 && y < 4 ? 0.5 : 1)), 'perhaps'],
  ['a board came in front of the left', look((x) => (x < 9 ? 0.4 : 1)), 'surely'],
  ['the lamp has another colour', { ...look(() => 1), ...coloured(() => 158) }, 'no'],
  [
    'a cloth as bright as skin came in front of the left',
    { ...look(() => 1), ...coloured((x) => (x < 9 ? 70 : 128)) },
    'surely',
  ],
  ['something bright came in front of the chin', look((_x, y) => (y > 16 ? 1.5 : 1)), 'surely'],
])('tells whether something is in front when %s', (_what, now, expected) => {
  expect(parts.covered(plain, now)).toBe(expected);
  // Appearing and disappearing objects are detected alike.
  expect(parts.covered(now, plain)).toBe(expected);
});
