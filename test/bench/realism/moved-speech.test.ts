import { openPortraits, type Portrait } from '@semblance/testkit/engine-builtin/portraits';
import { ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { faceFromPoints } from '@semblance/vision/face-mesh';
import { beforeAll, describe, expect, it } from 'vitest';
import { animated } from './cases/animated.ts';
import { blinksOf, headWay, pausesIn, widthOf } from './moved-speech.ts';

let portrait: Portrait;

beforeAll(async () => {
  [portrait] = (await openPortraits(ASTRONAUT)) as [Portrait];
});

describe('the pauses of a sound', () => {
  const sound = (parts: readonly (readonly [number, number])[]): number[] =>
    parts.flatMap(([seconds, loud]) =>
      Array.from({ length: seconds * 8000 }, (_, i) => loud * Math.sin(i / 3)),
    );
  const pauses = (parts: readonly (readonly [number, number])[]): number[] =>
    pausesIn(sound(parts), { sampleRate: 8000, frames: 50, frameRate: 25 }).flatMap((is, n) =>
      is ? [n] : [],
    );

  it('are silences of some length, without their ends', () => {
    expect(
      pauses([
        [0.8, 1],
        [0.4, 0.001],
        [0.8, 1],
      ]),
    ).toEqual([23, 24, 25, 26]);
  });

  it('are no short silences, as before a p, and no quiet words', () => {
    expect(
      pauses([
        [0.8, 1],
        [0.1, 0],
        [1.1, 1],
      ]),
    ).toEqual([]);
    expect(
      pauses([
        [0.8, 1],
        [0.4, 0.1],
        [0.8, 1],
      ]),
    ).toEqual([]);
  });
});

describe('the face of a speaker', () => {
  it('blinks where its eyes shut for a moment', async () => {
    const { picture, face } = portrait;
    const draw = await animated(picture, face);
    const [open, shut] = [draw({ expression: { eyes: [1, 1] } }), draw({ expression: { eyes: [0, 0] } })];
    const frames = Array.from({ length: 40 }, (_, n) =>
      (n >= 10 && n < 15) || (n >= 28 && n < 32) ? shut : open,
    );
    const faces = frames.map(() => face);
    expect(blinksOf(portrait, frames, faces)).toEqual([10, 28]);
    expect(
      blinksOf(
        portrait,
        frames.map(() => open),
        faces,
      ),
    ).toEqual([]);
    expect(
      blinksOf(
        portrait,
        frames.map(() => shut),
        faces,
      ),
    ).toEqual([]);
  });

  it('has a mouth as wide as before at another size, and a head whose way is measured', () => {
    const { face } = portrait;
    const moved = (size: number, dx: number) =>
      faceFromPoints(
        face.points.map((value, i) => value * size + (i % 3 === 0 ? dx : 0)),
        1,
      );
    expect(widthOf(moved(1.3, 20))).toBeCloseTo(widthOf(face), 5);
    const wide = face.points.slice();
    wide[61 * 3] = (wide[61 * 3] as number) - 0.05 * face.width;
    expect(widthOf(faceFromPoints(wide, 1))).toBeGreaterThan(1.05 * widthOf(face));
    expect(headWay(face, [face, face])).toBe(0);
    expect(headWay(face, [face, moved(1, 0.2 * face.width)])).toBeGreaterThan(0.3);
  });
});
