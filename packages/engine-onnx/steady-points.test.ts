import { noise } from '@semblance/testkit/engine-onnx/tiny-models';
import { type Face, faceFromPoints, POINTS } from '@semblance/vision/face-mesh';
import { LEFT_EYE, RIGHT_EYE } from '@semblance/vision/face-regions';
import type { Point } from '@semblance/vision/picture';
import { describe, expect, it } from 'vitest';
import { fiveOf } from './face-places.ts';
import { SteadyPoints } from './steady-points.ts';

const ERRORS = noise(600, 5);

/** A face whose eyes are 100 pixels apart, turned and moved. */
function faceAt(x: number, y: number, roll: number): Face {
  const points = new Float32Array(POINTS * 3);
  const put = (index: number, u: number, v: number) =>
    points.set(
      [x + u * Math.cos(roll) - v * Math.sin(roll), y + u * Math.sin(roll) + v * Math.cos(roll), 0],
      index * 3,
    );
  for (let i = 0; i < POINTS; i++) put(i, 0, 0);
  for (const index of RIGHT_EYE) put(index, -50, -40);
  for (const index of LEFT_EYE) put(index, 50, -40);
  put(4, 0, 20);
  put(61, -35, 70);
  put(291, 35, 70);
  return faceFromPoints(points, 1);
}

/** What a network finds: the points of the mesh, 3 pixels further right in the face, with errors. */
function found(mesh: Face, roll: number, index: number, errors: number): Point[] {
  const values = ERRORS.subarray(10 * index);
  return fiveOf(mesh).map(({ x, y }, i) => ({
    x: x + 3 * Math.cos(roll) + errors * (values[2 * i] as number),
    y: y + 3 * Math.sin(roll) + errors * (values[2 * i + 1] as number),
  }));
}

/** Errors of the points in the frames of a face that moves and turns, without the first frames. */
function errors(of: (index: number, mesh: Face, refined: Point[]) => readonly Point[]): number[] {
  return Array.from({ length: 60 }, (_, index) => {
    const roll = index / 80;
    const mesh = faceAt(200 + 2 * index, 150 + index, roll);
    const exact = found(mesh, roll, index, 0);
    return of(index, mesh, found(mesh, roll, index, 2)).map(({ x, y }, i) =>
      Math.hypot(x - (exact[i] as Point).x, y - (exact[i] as Point).y),
    );
  })
    .slice(15)
    .flat();
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

describe('points of a face in a video', () => {
  it('tremble a third as much as those of the network, and follow the face', () => {
    const steady = new SteadyPoints();
    const raw = mean(errors((_index, _mesh, refined) => refined));
    expect(mean(errors((index, mesh, refined) => steady.of(1, index, mesh, refined)))).toBeLessThan(
      0.42 * raw,
    );
  });

  it('stay where the network saw them last while it is not certain', () => {
    const steady = new SteadyPoints();
    const mesh = faceAt(200, 150, 0);
    steady.of(1, 0, mesh, found(mesh, 0, 0, 0));
    const moved = faceAt(260, 180, 0.5);
    const held = steady.of(1, 1, moved, undefined);
    for (const [i, { x, y }] of found(moved, 0.5, 0, 0).entries()) {
      expect(held[i]?.x).toBeCloseTo(x, 3);
      expect(held[i]?.y).toBeCloseTo(y, 3);
    }
  });

  it('are those of the mesh where the network never was certain, and for another face', () => {
    const steady = new SteadyPoints();
    const mesh = faceAt(200, 150, 0);
    expect(steady.of(1, 0, mesh, undefined)).toEqual(fiveOf(mesh));
    steady.of(1, 1, mesh, found(mesh, 0, 0, 0));
    expect(steady.of(2, 1, mesh, undefined)).toEqual(fiveOf(mesh));
  });

  it('start anew after a jump, and after a pause', () => {
    const mesh = faceAt(200, 150, 0);
    const far = fiveOf(mesh).map(({ x, y }) => ({ x: x + 20, y }));
    const steady = new SteadyPoints();
    steady.of(1, 0, mesh, found(mesh, 0, 0, 0));
    expect(steady.of(1, 1, mesh, far)[0]?.x).toBeCloseTo(far[0]?.x as number, 3);
    const near = found(mesh, 0, 0, 0);
    expect(steady.of(1, 30, mesh, near)[0]?.x).toBeCloseTo(near[0]?.x as number, 3);
  });

  it('of tracks that ended are forgotten', () => {
    const mesh = faceAt(200, 150, 0);
    const steady = new SteadyPoints();
    steady.of(1, 0, mesh, found(mesh, 0, 0, 0));
    steady.forgetBefore(1);
    expect(steady.of(1, 1, mesh, undefined)).toEqual(fiveOf(mesh));
  });
});
