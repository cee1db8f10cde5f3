import type { Picture } from '@semblance/engine-api/picture';
import { JAW } from '@semblance/engine-builtin/internal/swap/jaw';
import { moveJaw } from '@semblance/engine-builtin/internal/swap/move-jaw';
import { openPortraits, type Portrait } from '@semblance/testkit/engine-builtin/portraits';
import { ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { FACE_OVAL, LIPS_INNER } from '@semblance/vision/face-regions';
import { fillPolygon, grow, plane } from '@semblance/vision/plane/plane';
import { beforeAll, describe, expect, it } from 'vitest';
import { flickerOf, MOST_FLICKER, textureLeft } from './judged-clip.ts';
import { FLOORS, failures, measure } from './measures.ts';

let portrait: Portrait;

beforeAll(async () => {
  [portrait] = (await openPortraits(ASTRONAUT)) as [Portrait];
});

/** Returns the portrait with its pixels changed inside an outline of mesh points. */
function changed(
  outline: readonly number[],
  change: (level: number, channel: number) => number,
  picture = portrait.picture,
): Picture {
  const { face } = portrait;
  const data = picture.data.slice();
  const mask = plane(picture.width, picture.height);
  fillPolygon(
    mask,
    outline.flatMap((i) => [face.points[i * 3] as number, face.points[i * 3 + 1] as number]),
  );
  for (let i = 0; i < mask.data.length; i++)
    if (mask.data[i]) for (let c = 0; c < 3; c++) data[i * 3 + c] = change(data[i * 3 + c] as number, c);
  return { ...picture, data };
}

const measured = (after: Picture, occluder?: ReturnType<typeof plane>) =>
  measure(
    { before: portrait.picture, after },
    { before: portrait.face, after: portrait.face },
    { landmarks: [1, 1], occluder },
  );
const failed = (after: Picture): string[] => failures(measured(after)).map(({ name }) => name);

const NOSE = [6, 351, 419, 281, 275, 5, 45, 51, 196, 122];
const FACE = [10, 338, 297, 332, 284, 251, 389, 454, 361, 397, 379, 152, 150, 172, 132, 234, 162, 54, 67];
const BROW = [46, 53, 52, 65, 55, 107, 66, 105, 63, 70];
const NOSTRILS = [98, 97, 2, 326, 327, 4];
const EYE = [33, 160, 158, 133, 153, 144];

describe('the measures of a swap', () => {
  it('are perfect when nothing changes', () => {
    const same = measured(portrait.picture);
    expect(same).toMatchObject({
      tone: 0,
      patch: 0,
      texture: 1,
      sharpness: 1,
      seam: 0,
      drift: 0,
      mouth: 0,
      eyes: 0,
    });
    expect(failures(same)).toEqual([]);
  });

  it('find another complexion, a patch beside a feature, and smooth skin', () => {
    expect(failed(changed(FACE, (level, c) => (c === 2 ? level * 0.7 : level)))).toContain('tone');
    expect(failed(changed(NOSE, (level) => level * 0.6))).toContain('patch');
    expect(measured(changed(NOSE, (level) => level * 0.6)).patchAt).toBe('nose');
    expect(failed(changed(FACE, () => 150))).toEqual(expect.arrayContaining(['texture', 'sharpness']));
  });

  it('do not take the edge of an object in front for a seam', () => {
    const { picture, face } = portrait;
    const nose = plane(picture.width, picture.height);
    fillPolygon(
      nose,
      NOSE.flatMap((i) => [face.points[i * 3] as number, face.points[i * 3 + 1] as number]),
    );
    const { data } = changed(FACE, (level) => level * 0.8);
    for (let i = 0; i < data.length; i++)
      if (nose.data[Math.floor(i / 3)]) data[i] = picture.data[i] as number;
    const after = { ...picture, data };
    expect(measured(after, nose).seam).toBeLessThan(0.95 * measured(after).seam);
  });

  it('take a step of light for a seam, and darker brows or nostrils for none', () => {
    expect(failed(changed(FACE, (level) => level * 0.8))).toContain('seam');
    expect(measured(changed(BROW, (level) => level * 0.5)).seam).toBe(0);
    expect(measured(changed(NOSTRILS, (level) => level * 0.5)).seam).toBe(0);
  });

  it('take an edge that moved with the jaw for no seam, and a step of light beside it for one', () => {
    const { picture: before, face } = portrait;
    const moved = { ...before, data: before.data.slice() };
    const moves = new Float32Array(JAW.length * 2);
    for (let n = 5; n < JAW.length - 5; n++) moves[n * 2 + 1] = -0.06;
    moveJaw([{ ...moved, start: 0, pixels: 1 }], face, moved, moves, () => 1);
    const faces = { before: face, after: face };
    const seam = (by: number, compared: Picture): number => {
      const after = changed(FACE, (level) => Math.round(level * by), moved);
      return measure({ before, after, moved: compared }, faces, { landmarks: [1, 1] }).seam;
    };
    expect(seam(0.98, moved)).toBeLessThan(1);
    expect(seam(0.98, before)).toBeGreaterThan(3 * seam(0.98, moved));
    expect(seam(0.8, moved)).toBeGreaterThan(FLOORS.seam[1]);
  });

  it('look for the border of what was drawn where encoding has changed every pixel', () => {
    const { picture: before, face } = portrait;
    const faces = { before: face, after: face };
    const outline = changed(FACE, () => 255);
    const drawn = plane(before.width, before.height);
    for (let i = 0; i < drawn.data.length; i++)
      drawn.data[i] = [0, 1, 2].every((c) => outline.data[i * 3 + c] === 255) ? 1 : 0;
    const encoded = (picture: Picture): Picture => ({
      ...picture,
      data: picture.data.map((level, i) => Math.min(255, level + (i % 2))),
    });
    const seam = (by: number, share: typeof drawn | undefined): number => {
      const after = encoded(changed(FACE, (level) => level * by));
      return measure({ before, after, ...(share && { drawn: share }) }, faces, { landmarks: [1, 1] }).seam;
    };
    expect(seam(0.8, drawn)).toBeGreaterThan(FLOORS.seam[1]);
    expect(seam(0.8, undefined)).toBeLessThan(FLOORS.seam[1]);
    expect(seam(1, drawn)).toBeLessThan(1);
  });

  it('compare a face that is found anew with the target that is found anew, too', () => {
    const { picture: before, face } = portrait;
    const anew = { ...face, points: face.points.map((value, i) => value + (i % 3 === 1 ? 12 : 0)) };
    const known = { landmarks: [1, 1] } as const;
    const pictures = { before, after: before };
    expect(measure(pictures, { before: face, after: anew }, known).drift).toBeGreaterThan(FLOORS.drift[1]);
    expect(measure(pictures, { before: face, after: anew, anew }, known).drift).toBe(0);
  });

  it('take a few strong pixels deep in the face for no border', () => {
    const { picture, face } = portrait;
    const after = changed(FACE, (level) => level + 1);
    const [x, y] = [50 * 3, 50 * 3 + 1].map((i) => Math.round(face.points[i] as number)) as [number, number];
    after.data.fill(255, (y * picture.width + x) * 3, (y * picture.width + x + 2) * 3);
    const outline = FACE_OVAL.flatMap((i) => [
      face.points[i * 3] as number,
      face.points[i * 3 + 1] as number,
    ]);
    const front = plane(picture.width, picture.height);
    fillPolygon(front, outline);
    // All skin but the edge of the face and two pixels is hidden.
    const hidden = grow(front, -0.05 * face.width);
    hidden.data.fill(0, y * picture.width + x, y * picture.width + x + 2);
    expect(measured(after, hidden).seam).toBeLessThan(FLOORS.seam[1]);
  });

  it('compare the sharpness of features where the new ones are', () => {
    const { picture: before, face } = portrait;
    const by = Math.round(0.06 * face.width);
    const data = before.data.slice();
    data.copyWithin(by * before.width * 3, 0, data.length - by * before.width * 3);
    const points = face.points.map((value, i) => value + (i % 3 === 1 ? by : 0));
    const faces = { before: face, after: face, placed: { ...face, points } };
    const still = { ...before, data };
    const sharpness = measure({ before, after: before, still }, faces, { landmarks: [1, 1] }).sharpness;
    expect(sharpness).toBeCloseTo(1, 2);
  });

  it('look for patches where the new features are, because a lip is no patch of skin', () => {
    const { picture: before, face } = portrait;
    // The lips reach down to where skin was.
    const lower = [83, 18, 313, 421, 200, 201];
    const still = changed(lower, (level, c) => level * (c === 0 ? 1 : 0.5));
    const points = face.points.slice();
    const [lip, end] = [18, 200].map((i) => face.points[i * 3 + 1] as number) as [number, number];
    for (const i of lower) points[i * 3 + 1] = (points[i * 3 + 1] as number) + (end - lip) + 2;
    const faces = { before: face, after: face };
    const known = { landmarks: [1, 1] } as const;
    expect(measure({ before, after: still, still }, faces, known).patch).toBeGreaterThan(FLOORS.patch[1]);
    const placed = { ...face, points };
    expect(measure({ before, after: still, still }, { ...faces, placed }, known).patch).toBeLessThan(
      FLOORS.patch[1],
    );
  });

  it('find what was painted over an object in front', () => {
    const occluder = plane(portrait.picture.width, portrait.picture.height);
    fillPolygon(
      occluder,
      EYE.flatMap((i) => [portrait.face.points[i * 3] as number, portrait.face.points[i * 3 + 1] as number]),
    );
    expect(measured(portrait.picture, occluder).kept).toBe(1);
    const painted = measured(
      changed(EYE, (level) => 255 - level),
      occluder,
    );
    expect(painted.kept).toBeLessThan(0.5);
    expect(failures(painted).map(({ name }) => name)).toContain('kept');
  });

  it('find teeth that were painted over, and landmarks that fit the mesh no more', () => {
    const { picture: before, face } = portrait;
    const faces = { before: face, after: face };
    expect(measured(before).teeth).toBe(1);
    expect(failed(changed(LIPS_INNER, (_level, c) => [150, 80, 80][c] as number))).toContain('teeth');
    const moved = measure({ before, after: before }, faces, { landmarks: [2, 5] });
    expect(moved.landmarks).toBe(3);
    expect(failures(moved).map(({ name }) => name)).toEqual(['landmarks']);
  });

  it('say nothing of what an object hides', () => {
    const { picture, face } = portrait;
    const hand = (outline: readonly number[], by = 0): ReturnType<typeof plane> => {
      const mask = plane(picture.width, picture.height);
      fillPolygon(
        mask,
        outline.flatMap((i) => [face.points[i * 3] as number, face.points[i * 3 + 1] as number]),
      );
      return by === 0 ? mask : grow(mask, by);
    };
    // A line of skin that is left beside a hand.
    const darkNose = changed(NOSE, (level) => level * 0.5);
    expect(measured(darkNose, hand(EYE)).patchAt).toBe('nose');
    expect(measured(darkNose, hand(NOSE)).patchAt).not.toBe('nose');
    const noTeeth = changed(LIPS_INNER, (_level, c) => [150, 80, 80][c] as number);
    expect(measured(noTeeth, hand(EYE)).teeth).toBeLessThan(0.6);
    expect(measured(noTeeth, hand(LIPS_INNER, -0.01 * face.width)).teeth).toBeUndefined();
    // The upper outline of one half, which the hand hides, lies elsewhere.
    const points = face.points.slice();
    for (const i of [10, 338, 297, 332, 284, 251, 389]) points[i * 3] = (points[i * 3] as number) + 40;
    const faces = { before: face, after: { ...face, points } };
    const drift = (occluder: ReturnType<typeof plane>): number =>
      measure({ before: picture, after: picture }, faces, { landmarks: [1, 1], occluder }).drift;
    expect(drift(hand(EYE))).toBeGreaterThan(FLOORS.drift[1]);
    expect(drift(hand([10, 338, 297, 332, 284, 251, 389, 9], 4))).toBe(0);
  });

  it('find what an object in front of the source stains', () => {
    const { picture: before, face } = portrait;
    const bare = changed(FACE, (level) => level * 0.9);
    const stainedBy = (after: Picture) =>
      measure({ before, after }, { before: face, after: face }, { landmarks: [1, 1], bare }).stained;
    expect(stainedBy(bare)).toBe(0);
    expect(stainedBy(before)).toBe(0);
    expect(stainedBy(changed(NOSE, (level) => level * 0.5))).toBeGreaterThan(0.01);
    // Brows and eyes a little aside are no stain; far from their place they are.
    const aside = (by: number): Picture => {
      const data = before.data.slice();
      const by3 = 3 * Math.round(by * face.width);
      data.copyWithin(by3, 0, data.length - by3);
      return { ...before, data };
    };
    expect(stainedBy(aside(0.01))).toBeLessThan(0.01);
    expect(stainedBy(aside(0.04))).toBeGreaterThan(FLOORS.stained[1]);
  });
});

describe('the texture that encoding leaves', () => {
  it('is read beside what was drawn', () => {
    const { picture: before, face } = portrait;
    const flat = (picture: Picture): Picture => ({ ...picture, data: picture.data.map(() => 120) });
    const moved = changed(FACE, (level) => 255 - level);
    expect(textureLeft({ before, after: before, moved }, face)).toBe(1);
    expect(textureLeft({ before, after: changed(FACE, () => 120), moved }, face)).toBe(1);
    expect(textureLeft({ before, after: flat(before), moved }, face)).toBeLessThan(0.5);
    const smooth = measure(
      { before, after: flat(before) },
      { before: face, after: face },
      { landmarks: [1, 1], encoded: 0.5 },
    );
    expect(smooth.texture).toBeCloseTo(2 * measured(flat(before)).texture, 5);
  });
});

describe('the flicker of a clip', () => {
  it('is what a region steps more than before the swap', () => {
    const { picture: still, face } = portrait;
    const faces = [face, face, face, face];
    const darker = changed(NOSE, (level) => level * 0.8);
    const same = [still, still, still, still];
    expect(flickerOf(same, same, faces).step).toBe(0);
    expect(flickerOf(same, [still, darker, still, darker], faces)).toMatchObject({ region: 'nose' });
    expect(flickerOf(same, [still, darker, still, darker], faces).step).toBeGreaterThan(MOST_FLICKER);
    // Only where the new features are.
    const aside = faces.map((one) => ({
      ...one,
      points: one.points.map((value, i) => value + (i % 3 === 0 ? 90 : 0)),
    }));
    expect(flickerOf(same, [still, darker, still, darker], faces, aside).region).not.toBe('nose');
    // A lamp that flickers in the clip is no fault of the swap.
    const lamp = [still, darker, still, darker];
    expect(flickerOf(lamp, lamp, faces).step).toBe(0);
  });
});
