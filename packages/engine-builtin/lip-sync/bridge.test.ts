import { type Face, faceFromPoints, POINTS } from '@semblance/vision/face-mesh';
import { describe, expect, it } from 'vitest';
import { bridged } from './bridge.ts';
import type { TrackedFrame } from './steady-face.ts';

const [WIDTH, HEIGHT] = [200, 160];

/** Returns a mesh whose points lie all over a square, shifted by `dx`. */
function face(dx: number): Face {
  const points = new Float32Array(POINTS * 3);
  for (let i = 0; i < POINTS; i++) {
    points[i * 3] = 40 + dx + (i % 22) * 4;
    points[i * 3 + 1] = 30 + Math.floor(i / 22) * 4;
  }
  return faceFromPoints(points, 0.9);
}

/** Returns a frame with a pattern that is shifted with the face, or with something else. */
function frame(dx: number, kind: 'face' | 'hand' = 'face'): TrackedFrame['frame'] {
  const data = new Uint8Array((WIDTH * HEIGHT * 3) / 2).fill(128);
  for (let y = 0; y < HEIGHT; y++) {
    for (let x = 0; x < WIDTH; x++) {
      const value = kind === 'face' ? Math.sin((x - dx) / 9) + Math.cos(y / 7) : Math.sin(x * y);
      data[y * WIDTH + x] = 120 + 50 * value;
    }
  }
  return { width: WIDTH, height: HEIGHT, data };
}

const seen = (dx: number): TrackedFrame => ({ frame: frame(dx), startUs: 0, face: face(dx) });
const lost = (dx: number, kind?: 'hand'): TrackedFrame => ({
  frame: frame(dx, kind),
  startUs: 0,
  face: undefined,
});

async function bridge(frames: readonly TrackedFrame[]): Promise<TrackedFrame[]> {
  const source = async function* () {
    yield* frames;
  };
  const out: TrackedFrame[] = [];
  for await (const one of bridged(source())) out.push(one);
  expect(out.map(({ frame: { data } }) => data)).toEqual(frames.map(({ frame: { data } }) => data));
  return out;
}

const left = (frames: readonly TrackedFrame[]): (number | undefined)[] =>
  frames.map((one) => one.face?.points[0]);

describe('a face lost for some frames', () => {
  it('is put between where it was and where it is found again', async () => {
    expect(left(await bridge([seen(0), lost(2), lost(4), lost(6), seen(8)]))).toEqual([40, 42, 44, 46, 48]);
    const five = [1, 2, 3, 4, 5].map((dx) => lost(dx));
    expect(left(await bridge([seen(0), ...five, seen(6)]))).toEqual([40, 41, 42, 43, 44, 45, 46]);
  });

  it('stays lost after more than five, and at the ends', async () => {
    const six = [1, 2, 3, 4, 5, 6].map((dx) => lost(dx));
    const none = six.map(() => undefined);
    expect(left(await bridge([seen(0), ...six, seen(7)]))).toEqual([40, ...none, 47]);
    expect(left(await bridge([lost(0), lost(0), seen(0), lost(0)]))).toEqual([
      ...[undefined, undefined],
      ...[40, undefined],
    ]);
  });

  it('stays lost where the frame shows something else', async () => {
    expect(left(await bridge([seen(0), lost(0, 'hand'), lost(0), seen(0)]))).toEqual([40, undefined, 40, 40]);
  });

  it('stays lost across a cut, and where another face comes up', async () => {
    const cut = { ...seen(0), cut: true };
    expect(left(await bridge([seen(0), lost(0), cut]))).toEqual([40, undefined, 40]);
    expect(left(await bridge([seen(0), lost(40), seen(80)]))).toEqual([40, undefined, 120]);
  });
});
