import type { Picture } from '@semblance/engine-api/picture';
import { openPortraits } from '@semblance/testkit/engine-builtin/portraits';
import { ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { type Face, faceFromPoints } from '@semblance/vision/face-mesh';
import { FACE_OVAL, LIPS_INNER } from '@semblance/vision/face-regions';
import { openPersonFinder } from '@semblance/vision/person-finder';
import { grow } from '@semblance/vision/plane/plane';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ANIMATION_LIMITS, animationVerdict, type MeasureName } from './animation-measures.ts';
import { apart } from './apart.ts';
import { evenSized } from './cases/animated.ts';
import { areaOf } from './face-areas.ts';
import { type AnimationJudges, judgeAnimation } from './judged-animation.ts';
import { openJudges } from './judged-case.ts';

/** Frames of the animations here: the whole picture sways. */
const FRAMES = 15;

let judges: AnimationJudges;
let still: Picture;
let face: Face;
let frames: Picture[];

beforeAll(async () => {
  judges = { ...(await openJudges()), people: await openPersonFinder() };
  const [portrait] = await openPortraits(ASTRONAUT);
  if (!portrait) throw new Error('no portrait');
  still = await evenSized(portrait.picture);
  face = portrait.face;
  frames = Array.from({ length: FRAMES }, (_, n) => shifted(still, Math.round(2 * Math.sin(n / 2))));
}, 60_000);
afterAll(() => judges.people.close());

const judged = (given: readonly Picture[], closed = false) =>
  judgeAnimation({ still, frames: given, closed: () => closed }, judges);
const failed = async (given: readonly Picture[], closed = false): Promise<string[]> =>
  animationVerdict((await judged(given, closed)).measures).names;

function shifted(picture: Picture, by: number): Picture {
  const { width, data } = picture;
  const out = data.slice();
  for (let i = 0; i < data.length / 3; i++) {
    const from = i - (i % width) + Math.min(width - 1, Math.max(0, (i % width) - by));
    out.set(data.slice(from * 3, from * 3 + 3), i * 3);
  }
  return { ...picture, data: out };
}

/** Returns a picture with its pixels changed where a mask is set. */
function painted(
  picture: Picture,
  mask: { data: Float32Array },
  change: (value: number, c: number) => number,
): Picture {
  const data = picture.data.slice();
  for (let i = 0; i < mask.data.length; i++)
    if (mask.data[i]) for (let c = 0; c < 3; c++) data[i * 3 + c] = change(data[i * 3 + c] as number, c);
  return { ...picture, data };
}

describe('the limits of animated stills', () => {
  const middle = Object.fromEntries(
    Object.entries(ANIMATION_LIMITS).map(([name, [low, high]]) => [name, (low + high) / 2]),
  );

  it.each(Object.keys(ANIMATION_LIMITS) as MeasureName[])('name %s where it is outside them', (name) => {
    expect(animationVerdict(middle)).toEqual({ worst: 0, faults: [], names: [] });
    const [low, high] = ANIMATION_LIMITS[name];
    const bad = animationVerdict({ ...middle, [name]: name === 'found' ? low / 2 : 2 * high });
    expect(bad.names).toEqual([name]);
    expect(bad.worst).toBeGreaterThan(0);
    expect(bad.faults[0]).toMatch(new RegExp(`^${name} `));
  });

  it('let pass what is not known', () => {
    expect(animationVerdict({ teeth: undefined, pause: undefined }).worst).toBe(0);
  });
});

describe('an animated still', () => {
  it('is within all limits when it sways as a whole', async () => {
    expect(await failed(frames)).toEqual([]);
  }, 60_000);

  it('flickers when a frame has another complexion', async () => {
    const red = frames.map((frame, n) =>
      n % 4 === 2
        ? painted(frame, areaOf(frame, face, [FACE_OVAL]), (v, c) => (c === 0 ? v : 0.88 * v))
        : frame,
    );
    expect(await failed(red)).toEqual(['flicker']);
  }, 60_000);

  it('shows teeth through lips that are closed', async () => {
    const [frame] = frames as [Picture];
    const mouth = grow(areaOf(frame, face, [LIPS_INNER]), 0.03 * face.width);
    const white = painted(frame, mouth, () => 235);
    expect((await judged([white, white], true)).measures.shut).toBeGreaterThan(ANIMATION_LIMITS.shut[1]);
    expect((await judged([white, white], false)).measures.shut).toBe(0);
    expect((await judged([frame, frame], true)).measures.shut).toBeLessThan(ANIMATION_LIMITS.shut[1]);
  }, 60_000);

  it('lost much of its teeth', async () => {
    const mouth = areaOf(still, face, [LIPS_INNER]);
    // Dim and red, as flesh is.
    const flesh = painted(
      still,
      grow(mouth, 0.03 * face.width),
      (value, c) => (c === 0 ? 0.75 : 0.55) * value,
    );
    const animation = { still, closed: () => false };
    const teeth = async (frame: Picture): Promise<number | undefined> =>
      (await judgeAnimation({ ...animation, frames: Array(5).fill(frame) }, judges)).measures.teeth;
    expect(await teeth(still)).toBeCloseTo(1, 1);
    expect(await teeth(flesh)).toBeLessThan(ANIMATION_LIMITS.teeth[0]);
  }, 60_000);

  it('is out of focus, or has no face', async () => {
    const { width, height, data } = still;
    const soft = await sharp(data, { raw: { width, height, channels: 3 } })
      .blur(2.5)
      .raw()
      .toBuffer();
    const blurred = { ...still, data: new Uint8Array(soft) };
    expect((await judged([blurred, blurred])).measures.sharpness).toBeLessThan(ANIMATION_LIMITS.sharpness[0]);
    const grey = { ...still, data: new Uint8Array(data.length).fill(128) };
    expect((await judged([grey, grey])).measures.found).toBe(0);
  }, 60_000);

  it('comes apart where a detector finds the mouth elsewhere than the mesh', async () => {
    const own = await judges.landmarks(still, face);
    const low = face.points.map((value, i) => (i % 3 === 1 ? value + 0.06 * face.width : value));
    const away = await judges.landmarks(still, faceFromPoints(low, 1));
    expect(away - own).toBeGreaterThan(ANIMATION_LIMITS.landmarks[1]);
  });
});

describe('a clip and its end', () => {
  it('are the same at the same frames', () => {
    const faces = frames.map(() => face);
    expect(apart({ frames, faces }, { frames: frames.slice(4), faces: faces.slice(4) }, 4)).toMatchObject({
      points: 0,
      pixels: 0,
    });
  });

  it('have no other look where a head only lies elsewhere', () => {
    const faces = frames.map(() => face);
    const by = Math.round(0.03 * face.width);
    const moved = faces.map(({ points, score }) =>
      faceFromPoints(
        points.map((value, i) => (i % 3 === 0 ? value + by : value)),
        score,
      ),
    );
    const other = { frames: frames.map((frame) => shifted(frame, by)), faces: moved };
    expect(apart({ frames, faces }, other, 0).pixels).toBeLessThan(0.5);
    expect(apart({ frames, faces }, { ...other, faces }, 0).pixels).toBeGreaterThan(5);
  });

  it('are apart when one head is beside the other, or darker', () => {
    const faces = frames.map(() => face);
    const beside = faces.map(({ points, score }) =>
      faceFromPoints(
        points.map((value, i) => (i % 3 === 0 ? value + 0.04 * face.width : value)),
        score,
      ),
    );
    const whole = { frames, faces };
    expect(apart(whole, { frames, faces: beside }, 0).points).toBeGreaterThan(ANIMATION_LIMITS.cutPoints[1]);
    const dark = frames.map((frame) => ({ ...frame, data: frame.data.map((value) => 0.85 * value) }));
    expect(apart(whole, { frames: dark, faces }, 0).pixels).toBeGreaterThan(ANIMATION_LIMITS.cutPixels[1]);
  });
});
