import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { readPicture } from '@semblance/testkit/engine-builtin/video-swap/clips';
import { FaceFinder } from '@semblance/vision/face-finder';
import { type Face, faceFromPoints } from '@semblance/vision/face-mesh';
import { openSession } from '@semblance/vision/models/session';
import { beforeAll, describe, expect, it } from 'vitest';
import { frontalness, JAW, JawMean, jawMoves } from './jaw.ts';
import { moveJaw } from './move-jaw.ts';

const CHIN = JAW.indexOf(152);
const CHEEK = JAW.indexOf(397);
let astronaut: Face;
let admiral: Face;

beforeAll(async () => {
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  const finder = new FaceFinder({ blazeface, facemesh });
  const found = await Promise.all(
    [ASTRONAUT, ADMIRAL].map(
      async (path) => (await finder.find(await readPicture(path), () => undefined))[0],
    ),
  );
  [astronaut, admiral] = found as [Face, Face];
});

/** Returns a face whose jaw, below the tip of the nose, is changed. */
function withJaw(face: Face, change: (x: number, y: number) => readonly [number, number]): Face {
  const { points } = face;
  const [middle, nose] = [points[1 * 3] as number, points[1 * 3 + 1] as number];
  const out = points.slice();
  for (const index of JAW) {
    const [x, y] = [(points[index * 3] as number) - middle, (points[index * 3 + 1] as number) - nose];
    if (y <= 0) continue;
    const [newX, newY] = change(x, y);
    out[index * 3] = middle + newX;
    out[index * 3 + 1] = nose + newY;
  }
  return faceFromPoints(out, 1);
}

describe('jawMoves', () => {
  it('moves nothing for the same face in another size and place', () => {
    const same = astronaut.points.map((value, i) => 0.5 * value + ([40, 70, 0][i % 3] as number));
    expect(Math.max(...jawMoves(astronaut, same).map(Math.abs))).toBeLessThan(0.002);
  });

  it('takes nine tenths of a longer chin, and of a wider jaw on both sides', () => {
    const longer = withJaw(astronaut, (x, y) => [x, y * 1.05]);
    const drop = 0.05 * ((astronaut.points[152 * 3 + 1] as number) - (astronaut.points[4] as number));
    const moves = jawMoves(astronaut, longer.points);
    expect(moves[CHIN * 2 + 1]).toBeCloseTo((0.9 * drop) / astronaut.width, 2);
    const wider = jawMoves(astronaut, withJaw(astronaut, (x, y) => [x * 1.06, y]).points);
    const other = JAW.length - 1 - CHEEK;
    expect(wider[CHEEK * 2]).toBeGreaterThan(0.012);
    expect(wider[other * 2]).toBeCloseTo(-(wider[CHEEK * 2] as number), 5);
    expect(Math.abs(wider[CHIN * 2] as number)).toBeLessThan(0.001);
  });

  it('moves no point by more than six hundredths of the width', () => {
    const moves = jawMoves(astronaut, withJaw(astronaut, (x, y) => [x * 1.5, y * 1.5]).points);
    const lengths = JAW.map((_, n) => Math.hypot(moves[n * 2] as number, moves[n * 2 + 1] as number));
    expect(Math.max(...lengths)).toBeLessThanOrEqual(0.0601);
    expect(Math.max(...lengths)).toBeGreaterThan(0.055);
  });

  it('does not take an open mouth for a long chin', () => {
    const open = astronaut.points.slice();
    const by = 0.12 * astronaut.width;
    // The lower lip and the jaw go down together.
    for (const index of [17, 84, 314, 181, 405, 91, 321, 152, 148, 377, 176, 400])
      open[index * 3 + 1] = (open[index * 3 + 1] as number) + by;
    const moves = jawMoves(astronaut, open);
    expect(Math.abs(moves[CHIN * 2 + 1] as number)).toBeLessThan(0.01);
  });
});

describe('JawMean', () => {
  it('settles on the mean of trembling frames', () => {
    const mean = new JawMean(admiral.points);
    const noisy = [0.97, 1.03, 0.98, 1.02];
    for (const by of noisy) mean.add(withJaw(astronaut, (x, y) => [x * by, y * by]));
    const still = jawMoves(astronaut, admiral.points);
    const off = still.map((move, i) => Math.abs(move - (mean.moves[i] as number)));
    expect(Math.max(...off)).toBeLessThan(0.008);
    expect(mean.seen).toBeCloseTo(4 * frontalness(astronaut), 5);
  });
});

describe('moveJaw', () => {
  const size = { width: 200, height: 220 };
  /** A bright face on dark ground, and a light line far below it. */
  const picture = (channels: number) => {
    const data = new Uint8Array(size.width * size.height * channels).fill(20);
    const face = placed();
    const outline = JAW.map(
      (index) => [face.points[index * 3], face.points[index * 3 + 1]] as [number, number],
    );
    const chin = outline[CHIN] as [number, number];
    for (let y = 0; y < size.height; y++)
      for (let x = 0; x < size.width; x++)
        if (y < chin[1]) data.fill(200, (y * size.width + x) * channels, (y * size.width + x + 1) * channels);
    return { ...size, channels, data };
  };
  /** The astronaut's mesh in the middle, 100 pixels wide. */
  const placed = () => {
    const { points, width } = astronaut;
    const scale = 100 / width;
    const [x, y] = [points[3] as number, points[4] as number];
    return faceFromPoints(
      points.map((value, i) => (i % 3 === 2 ? value * scale : (value - (i % 3 === 0 ? x : y)) * scale + 100)),
      1,
    );
  };
  /** First row below the chin that is dark. */
  const edgeAt = ({ data, width, channels }: ReturnType<typeof picture>, x: number) => {
    let y = 0;
    while ((data[(y * width + x) * channels] as number) > 110) y++;
    return y;
  };

  it.each([1, 3, 4])('moves the chin down by what it is told, in %i channels', (channels) => {
    const before = picture(channels);
    const after = { ...before, data: before.data.slice() };
    const moves = new Float32Array(JAW.length * 2);
    for (let n = 5; n < JAW.length - 5; n++) moves[n * 2 + 1] = 0.05;
    const face = placed();
    moveJaw([{ ...after, start: 0, pixels: 1 }], face, size, moves, () => 1);
    const x = Math.round(face.points[152 * 3] as number);
    expect(edgeAt(after, x) - edgeAt(before, x)).toBe(5);
    // The mouth does not move, nor what is far from the face.
    const far = (y: number) =>
      after.data.subarray(y * size.width * channels, (y + 1) * size.width * channels);
    expect(far(90)).toEqual(before.data.subarray(90 * size.width * channels, 91 * size.width * channels));
    expect(far(215)).toEqual(before.data.subarray(215 * size.width * channels, 216 * size.width * channels));
  });

  it('moves nothing where something covers the jaw', () => {
    const before = picture(3);
    const after = { ...before, data: before.data.slice() };
    const moves = new Float32Array(JAW.length * 2).fill(0.05);
    moveJaw([{ ...after, start: 0, pixels: 1 }], placed(), size, moves, () => 0);
    expect(after.data).toEqual(before.data);
  });
});
