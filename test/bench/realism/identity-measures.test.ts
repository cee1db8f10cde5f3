import type { Picture } from '@semblance/engine-api/picture';
import { clipFrame } from '@semblance/testkit/engine-builtin/identity-swap/clips';
import type { Face } from '@semblance/vision/face-mesh';
import { faceFromPoints } from '@semblance/vision/face-mesh';
import { beforeAll, describe, expect, it } from 'vitest';
import { identityVerdict, liesOn, neckSeam, remainsShare } from './identity-measures.ts';
import { type Judges, openJudges } from './judged-case.ts';
import { identityClip } from './judged-identity.ts';

const GOOD = { found: 1, landmarks: 2, neck: 8, flicker: 1, remains: 0.05 };

let before: Picture;
let empty: Uint8Array;
let mask: Uint8Array;
let face: Face;
let judges: Judges;

beforeAll(async () => {
  judges = await openJudges();
  const clip = await identityClip('identity: near', 'astronaut');
  const drawn = clipFrame(clip, 3);
  [empty, mask] = [drawn.empty, drawn.mask];
  before = { width: clip.width, height: clip.height, channels: 3, data: drawn.rgb };
  const [found] = await judges.finder.find(before, () => undefined);
  if (!found) throw new Error('the figure has no face');
  face = found;
}, 60_000);

describe('the measures of Identity Swap', () => {
  it.each([
    ['found', 0.5],
    ['landmarks', 8],
    ['neck', 25],
    ['flicker', 8],
    ['remains', 0.5],
  ])('name %s where it is outside its limits', (name, value) => {
    expect(identityVerdict(GOOD)).toEqual({ worst: 0, faults: [] });
    const bad = identityVerdict({ ...GOOD, [name]: value });
    expect(bad.worst).toBeGreaterThan(0);
    expect(bad.faults).toEqual([expect.stringMatching(new RegExp(`^${name} `))]);
  });

  it('see an old head that was left, and none that is gone', () => {
    expect(remainsShare({ before, after: before, empty }, mask, face)).toBe(1);
    expect(remainsShare({ before, after: { ...before, data: empty }, empty }, mask, face)).toBe(0);
  });

  it('see a neck of another complexion', () => {
    const data = Uint8Array.from(before.data);
    const chin = face.points[152 * 3 + 1] as number;
    for (let i = Math.round(chin) * before.width; i < before.width * before.height; i++)
      data[i * 3] = 0.5 * (data[i * 3] as number);
    expect(neckSeam({ ...before, data }, face)).toBeGreaterThan(14);
    expect(neckSeam({ ...before, data }, face)).toBeGreaterThan(neckSeam(before, face) + 8);
  });

  it('see a head that is too large or beside its place, and a face that is none', async () => {
    const moved = (by: number, size: number): Face =>
      faceFromPoints(
        face.points.map((value, i) => (i % 3 === 0 ? value * size + by : value * size)),
        1,
      );
    expect(liesOn(face, face)).toBe(true);
    expect(liesOn(moved(0.3 * face.width, 1), face)).toBe(false);
    expect(liesOn(moved((-0.4 * face.width) / 2, 1.4), face)).toBe(false);
    const gone = { ...before, data: empty };
    expect(await judges.landmarks(before, face)).toBeLessThan(5);
    expect(await judges.landmarks(gone, face)).toBeGreaterThan(9);
  });
});
