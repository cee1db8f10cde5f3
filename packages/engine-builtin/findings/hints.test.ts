import { join } from 'node:path';
import type { Picture } from '@semblance/engine-api/picture';
import { openPortraits, type Portrait } from '@semblance/testkit/engine-builtin/portraits';
import { type Face, faceFromPoints } from '@semblance/vision/face-mesh';
import { beforeAll, describe, expect, it } from 'vitest';
import { ALL_SHOWN } from '../swap/shown-features.ts';
import { prepareSource } from '../swap/source-face.ts';
import { faceCounts, withBystanders } from './face-counts.ts';
import {
  faceHints,
  framesUnchanged,
  hintsOfLeft,
  keptFeatures,
  keptInFrames,
  severalFaces,
  sourceHints,
  stillFindings,
} from './hints.ts';

const MEDIA = join(import.meta.dirname, '..', '..', '..', 'media');
const FACE = { role: 'face', name: 'face picture' };
let astronaut: Portrait;
let admiral: Portrait;

beforeAll(async () => {
  [astronaut, admiral] = (await openPortraits(
    join(MEDIA, 'astronaut.png'),
    join(MEDIA, 'grace_hopper.jpg'),
  )) as [Portrait, Portrait];
});

/** Turns a mesh about the upright axis, in degrees, and scales it. */
function moved({ points, score }: Face, degrees: number, scale = 1): Face {
  const [cos, sin] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)];
  const out = points.slice();
  for (let i = 0; i < out.length; i += 3) {
    const [x, z] = [points[i] as number, points[i + 2] as number];
    out[i] = scale * (cos * x + sin * z);
    out[i + 1] = scale * (points[i + 1] as number);
    out[i + 2] = scale * (cos * z - sin * x);
  }
  return faceFromPoints(out, score);
}

const codes = (hints: readonly { readonly code: string }[]) => hints.map(({ code }) => code);

describe('the face of an input', () => {
  it('that looks into the camera and is large gives no hint', () => {
    expect(faceHints(astronaut.face, FACE)).toEqual([]);
  });

  it.each([30, -30])('that is turned by %s degrees in the mesh is told with its turn', (degrees) => {
    const [hint, ...others] = faceHints(moved(astronaut.face, degrees), FACE);
    expect(others).toEqual([]);
    expect(hint).toEqual({
      code: 'face_turned',
      // The mesh measures turns too small.
      message: expect.stringMatching(
        /^The face in the face picture is turned by about 3[05] degrees\. A picture from the front /,
      ),
      input: 'face',
    });
  });

  it('is small by the pixels between its eyes, whether it is turned or not', () => {
    expect(codes(faceHints(moved(astronaut.face, 0, 0.6), FACE))).toEqual(['face_small']);
    expect(faceHints(moved(astronaut.face, 0, 0.6), FACE)[0]?.message).toContain('with 26 pixels between');
    expect(codes(faceHints(moved(astronaut.face, 40), FACE))).toEqual(['face_turned']);
  });

  it('is one of several', () => {
    expect(severalFaces(1, FACE)).toEqual([]);
    expect(severalFaces(3, FACE)).toMatchObject([{ code: 'several_faces', input: 'face' }]);
    expect(severalFaces(3, FACE)[0]?.message).toContain('shows 3 faces');
  });
});

describe('a source face', () => {
  const hintsOf = ({ picture, face }: Portrait) => sourceHints(prepareSource(picture, face, 120), FACE);

  it('that is bare gives no hint, and one with glasses is told', () => {
    expect(hintsOf(astronaut)).toEqual([]);
    expect(codes(hintsOf(admiral))).toEqual(['glasses']);
  });

  it('under a fringe down to the eyes is told as covered', () => {
    const { face } = astronaut;
    const brow = face.points[66 * 3 + 1] as number;
    const painted = changed(astronaut, (x, y) =>
      y < brow && Math.abs(x - (face.points[9 * 3] as number)) < face.width / 2
        ? [0.15, 0.1, 0.08]
        : undefined,
    );
    expect(codes(hintsOf(painted))).toEqual(['face_covered']);
  });

  it('in red light from one side is told', () => {
    const middle = astronaut.face.points[4 * 3] as number;
    const lit = changed(astronaut, (x) => (x < middle ? [1, 0.35, 0.3] : undefined));
    expect(codes(hintsOf(lit))).toContain('coloured_light');
  });

  /** Multiplies the colours of pixels. */
  function changed(
    { picture, face }: Portrait,
    by: (x: number, y: number) => readonly [number, number, number] | undefined,
  ): Portrait {
    const data = Uint8Array.from(picture.data);
    for (let i = 0; i < data.length; i += 3) {
      const pixel = i / 3;
      const factors = by(pixel % picture.width, Math.floor(pixel / picture.width));
      for (const [c, factor] of (factors ?? []).entries()) data[i + c] = factor * (data[i + c] as number);
    }
    const { width, height } = picture;
    return { picture: { width, height, channels: 3, data } satisfies Picture, face };
  }
});

describe('features that are not taken', () => {
  it('are named once for all faces, in a sentence', () => {
    expect(keptFeatures([ALL_SHOWN])).toEqual([]);
    const [one] = keptFeatures([ALL_SHOWN, { ...ALL_SHOWN, mouth: 0 }]);
    expect(one?.code).toBe('feature_kept');
    expect(one?.message).toMatch(/^The mouth of a face stays as it was, because it is hidden/);
    const [more] = keptFeatures([
      { ...ALL_SHOWN, mouth: 0, right: 0.2 },
      { ...ALL_SHOWN, nose: 0.4, left: 0.6 },
    ]);
    expect(more?.message).toMatch(/^The mouth, nose and right eye of a face stay as they were/);
  });
});

describe('features that are not taken in a video', () => {
  const masked = { ...ALL_SHOWN, mouth: 0.4 };
  it('are told of a face that is seen for some time, if they stay in most of its frames', () => {
    expect(keptInFrames([], 0)).toEqual([]);
    expect(keptInFrames([{ frames: 100, taken: { ...ALL_SHOWN, mouth: 0.6 } }], 100)).toEqual([]);
    expect(keptInFrames([{ frames: 19, taken: masked }], 100)).toEqual([]);
    const [hint] = keptInFrames([{ frames: 20, taken: masked }], 100);
    expect(hint?.code).toBe('feature_kept');
    expect(hint?.message).toMatch(
      /^The mouth of a face stays as it was in most frames, because it is hidden/,
    );
  });
});

describe('frames that stay as they are', () => {
  it('are told unless they are few', () => {
    const hints = (unchanged: number) => framesUnchanged({ unchanged, frames: 100 }, FACE, 'face');
    expect(hints(5)).toEqual([]);
    expect(hints(6)[0]?.message).toMatch(/^6 of 100 frames of the face picture show no face/);
  });
});

describe('faces that cannot be used', () => {
  it('are told where a better picture helps', () => {
    expect(hintsOfLeft(['not_a_person', 'bystander'], FACE)).toEqual([]);
    const hints = hintsOfLeft(['turned_away', 'covered', 'covered'], FACE);
    expect(hints).toMatchObject([
      { code: 'face_turned', message: expect.stringMatching(/^A face in the face picture/), input: 'face' },
      { code: 'face_covered', input: 'face' },
    ]);
  });
});

describe('faces', () => {
  it('are those that are changed and those left alone, by reason', () => {
    expect(faceCounts(2, ['bystander', 'not_a_person', 'bystander'])).toEqual({
      found: 5,
      changed: 2,
      left: [
        { reason: 'bystander', count: 2 },
        { reason: 'not_a_person', count: 1 },
      ],
    });
    expect(withBystanders(['turned_away'], 2)).toEqual(['turned_away', 'bystander', 'bystander']);
  });

  it('of a still are one that is animated, and bystanders', () => {
    const seen = { faces: [astronaut.face, moved(astronaut.face, 0, 0.9)], left: [] };
    const { faces, hints } = stillFindings(seen, FACE);
    expect(faces).toEqual({ found: 2, changed: 1, left: [{ reason: 'bystander', count: 1 }] });
    expect(codes(hints)).toEqual(['several_faces']);
  });
});
