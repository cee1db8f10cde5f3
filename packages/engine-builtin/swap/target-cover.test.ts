import { openPortraits, type Portrait } from '@semblance/testkit/engine-builtin/portraits';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { coverCrop, FaceCover, showsFrame } from '@semblance/vision/face-cover';
import { cropsOf } from '@semblance/vision/face-mesh';
import { LEFT_LENS, NOSE_BRIDGE, RIGHT_LENS } from '@semblance/vision/face-regions';
import { openSession } from '@semblance/vision/models/session';
import { toCrop, toPicture } from '@semblance/vision/picture';
import { fillPolygon, grow, type Plane, plane, sample } from '@semblance/vision/plane/plane';
import { beforeAll, describe, expect, it } from 'vitest';
import { prepareSource } from './source-face.ts';
import { planSwap, swapFace } from './swap-face.ts';

let target: Portrait;
let source: Portrait;
let network: FaceCover;

beforeAll(async () => {
  [target, source] = (await openPortraits(ADMIRAL, ASTRONAUT)) as [Portrait, Portrait];
  network = new FaceCover(await openSession('face_cover'));
});

/** Returns a portrait with a finger of its own skin's colour beside the middle of the mouth, and its pixels. */
function pointedAt({ picture, face }: Portrait): Portrait & { finger: number[] } {
  const { width } = picture;
  const data = picture.data.slice();
  const at = (index: number, axis: number): number => Math.round(face.points[index * 3 + axis] as number);
  const skin = data.slice((at(50, 1) * width + at(50, 0)) * 3, (at(50, 1) * width + at(50, 0)) * 3 + 3);
  const [left, right] = [at(0, 0), at(291, 0)];
  const finger: number[] = [];
  for (let y = at(2, 1); y < at(152, 1) + 0.3 * face.width; y++) {
    for (let x = left; x < right; x++) {
      // Rounded like a cylinder: lit in the middle, dark at the sides.
      const across = (2 * (x - left)) / (right - left) - 1;
      const light = 0.55 + 0.45 * Math.sqrt(1 - across * across);
      for (let c = 0; c < 3; c++) data[(y * width + x) * 3 + c] = (skin[c] as number) * light;
      finger.push(y * width + x);
    }
  }
  return { picture: { ...picture, data }, face, finger };
}

function keptShare(
  { picture, face, finger }: ReturnType<typeof pointedAt>,
  cover: Plane | undefined,
): number {
  const result = { ...picture, data: picture.data.slice() };
  swapFace(result, face, prepareSource(source.picture, source.face, face.width), { cover });
  const kept = finger.filter(
    (i) => Math.abs((result.data[i * 3 + 1] as number) - (picture.data[i * 3 + 1] as number)) < 12,
  );
  return kept.length / finger.length;
}

describe('a finger in front of half of the mouth', () => {
  it('stays as it is', async () => {
    const pointed = pointedAt(target);
    const cover = await network.of(cropsOf(pointed.picture), pointed.face);
    expect(keptShare(pointed, cover)).toBeGreaterThan(0.93);
    expect(keptShare(pointed, undefined)).toBeLessThan(0.9);
  });

  it('changes nothing at the eyes', async () => {
    const pointed = pointedAt(target);
    const prepared = prepareSource(source.picture, source.face, pointed.face.width);
    const cover = await network.of(cropsOf(pointed.picture), pointed.face);
    const { right, left } = planSwap(pointed.picture, pointed.face, prepared, { cover }).skin.features;
    expect(Math.min(right, left)).toBeGreaterThan(0.9);
  });
});

describe('a pale frame of glasses that is found half surely', () => {
  /** The rims of two lenses and a bridge, where the network might find them. */
  const frame = ({ face }: Portrait): Plane => {
    const crop = coverCrop(face);
    const area = (outline: readonly number[]): Plane => {
      const out = plane(96, 96);
      fillPolygon(
        out,
        outline.flatMap((i) => {
          const { x, y } = toCrop(crop, face.points[i * 3] as number, face.points[i * 3 + 1] as number);
          return [x, y];
        }),
      );
      return out;
    };
    const lenses = [RIGHT_LENS, LEFT_LENS].map((outline) => area(outline));
    const inner = lenses.map((lens) => grow(lens, -2.5));
    const bridge = area(NOSE_BRIDGE);
    const data = bridge.data.map((share, i) => {
      const rim = lenses.some((lens, n) => lens.data[i] && !inner[n]?.data[i]);
      return rim || share ? 0.2 : 0;
    });
    return { ...bridge, data };
  };

  it('is kept on a target, and left out of a source', () => {
    const cover = frame(source);
    expect(showsFrame(cover, source.face)).toBe(true);
    const { picture, face } = source;
    const prepared = prepareSource(target.picture, target.face, face.width);
    const plan = planSwap(picture, face, prepared, { cover });
    const bare = planSwap(picture, face, prepared, {});
    const { visible, glasses } = prepareSource(picture, face, face.width, { cover });
    expect(glasses).toBe(true);
    const crop = coverCrop(face);
    const [kept, before, shown] = [[], [], []] as [number[], number[], number[]];
    for (let i = 0; i < cover.data.length; i++) {
      if (!cover.data[i]) continue;
      const { x, y } = toPicture(crop, (i % 96) + 0.5, Math.floor(i / 96) + 0.5);
      const at = [(x - plan.originX) / plan.scale, (y - plan.originY) / plan.scale] as const;
      kept.push(sample(plan.alpha, ...at));
      before.push(sample(bare.alpha, ...at));
      const by = visible.width / 96;
      shown.push(sample(visible, ((i % 96) + 0.5) * by, (Math.floor(i / 96) + 0.5) * by));
    }
    const mean = (values: number[]): number => values.reduce((sum, v) => sum + v, 0) / values.length;
    expect(mean(before)).toBeGreaterThan(0.8);
    expect(mean(kept)).toBeLessThan(0.35);
    expect(mean(shown)).toBeLessThan(0.35);
  });
});
