import { POINTS } from '@semblance/vision/face-mesh';
import { LIPS_INNER } from '@semblance/vision/face-regions';
import { expect, it } from 'vitest';
import { SteadyMesh } from './steady-mesh.ts';

/** Returns a mesh with an eye distance of 100 pixels, shifted, with noise on each point. */
function mesh(x: number, noise = 0, seed = 1): Float32Array {
  let state = seed;
  const random = () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647 - 0.5;
  };
  const points = Float32Array.from({ length: POINTS * 3 }, (_, i) => {
    const point = Math.floor(i / 3);
    return i % 3 === 0 ? 100 + (point % 22) * 7 : i % 3 === 1 ? 60 + Math.floor(point / 22) * 7 : 0;
  });
  points.set([120, 120, 0], 33 * 3);
  points.set([220, 120, 0], 263 * 3);
  return points.map((value, i) => value + (i % 3 === 0 ? x : 0) + (i % 3 < 2 ? noise * random() : 0));
}

const middle = (points: Float32Array): number => {
  let sum = 0;
  for (let i = 0; i < points.length; i += 3) sum += points[i] as number;
  return sum / POINTS;
};

/** Returns the root mean square motion from frame to frame. */
function jitter(frames: readonly Float32Array[]): number {
  let [sum, count] = [0, 0];
  for (let f = 1; f < frames.length; f++) {
    for (let i = 0; i < POINTS * 3; i++) {
      sum += ((frames[f]?.[i] as number) - (frames[f - 1]?.[i] as number)) ** 2;
      count++;
    }
  }
  return Math.sqrt(sum / count);
}

it('takes most of the noise out of a face at rest', () => {
  const steady = new SteadyMesh();
  const raw = Array.from({ length: 40 }, (_, i) => mesh(0, 1, i + 1));
  const out = raw.map((points, i) => steady.next(points, i * 40));
  expect(jitter(out.slice(10))).toBeLessThan(0.35 * jitter(raw.slice(10)));
});

it('does not lag behind a head in even motion, whatever the times between frames', () => {
  const steady = new SteadyMesh();
  let [ms, out] = [0, mesh(0)];
  for (let i = 0; i < 60; i++) {
    ms += i % 3 === 0 ? 70 : 25;
    out = steady.next(mesh(0.1 * ms, 0.5, i + 1), ms);
  }
  expect(Math.abs(middle(out) - middle(mesh(0.1 * ms)))).toBeLessThan(0.5);
});

it('follows a leap of the head and an opening mouth at once', () => {
  const steady = new SteadyMesh();
  for (let i = 0; i < 10; i++) steady.next(mesh(0, 0.5, i + 1), i * 40);
  const leap = mesh(30);
  for (const index of LIPS_INNER) leap[index * 3 + 1] = (leap[index * 3 + 1] as number) + 14;
  const out = steady.next(leap, 400);
  expect(Math.abs(middle(out) - middle(leap))).toBeLessThan(0.5);
  const lag = LIPS_INNER.map((index) =>
    Math.abs((out[index * 3 + 1] as number) - (leap[index * 3 + 1] as number)),
  );
  expect(Math.max(...lag)).toBeLessThan(1);
});

it('knows nothing of the motion after a pause', () => {
  const steady = new SteadyMesh();
  for (let i = 0; i < 10; i++) steady.next(mesh(5 * i), i * 40);
  const later = mesh(50, 1, 7);
  expect(steady.next(later, 1000)).toEqual(later);
});
