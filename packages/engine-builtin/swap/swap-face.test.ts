import type { Picture } from '@semblance/engine-api/picture';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { FaceFinder } from '@semblance/vision/face-finder';
import { type Face, faceFromPoints } from '@semblance/vision/face-mesh';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import { openSession } from '@semblance/vision/models/session';
import { fillPolygon, plane } from '@semblance/vision/plane/plane';
import sharp from 'sharp';
import { beforeAll, expect, it } from 'vitest';
import { prepareSource } from './source-face.ts';
import { swapFace } from './swap-face.ts';

interface Portrait {
  readonly picture: Picture;
  readonly face: Face;
}

let source: Portrait;
let target: Portrait;

beforeAll(async () => {
  const finder = new FaceFinder({
    blazeface: await openSession('blazeface'),
    facemesh: await openSession('facemesh'),
  });
  const open = async (file: string): Promise<Portrait> => {
    const { data, info } = await sharp(file).removeAlpha().raw().toBuffer({ resolveWithObject: true });
    const picture: Picture = {
      width: info.width,
      height: info.height,
      channels: 3,
      data: new Uint8Array(data),
    };
    const [face] = (await finder.find(picture, () => undefined)) as [Face];
    return { picture, face };
  };
  source = await open(ASTRONAUT);
  target = await open(ADMIRAL);
});

/** A mesh point beyond the left eye and the mouth. */
const LEFT_CHEEKBONE = 346;

/**
 * Returns a portrait whose left cheek (the person's left) is compressed as if it were turned away, with the
 * background reaching one or two pixels into its outline.
 */
function turned({ picture, face }: Portrait, narrower: number, ground: readonly number[]): Portrait {
  const { width, height } = picture;
  const from = face.points[LEFT_CHEEKBONE * 3] as number;
  const points = face.points.slice();
  for (let i = 0; i < points.length; i += 3) {
    const beyond = (points[i] as number) - from;
    if (beyond > 0) points[i] = from + beyond / narrower;
  }
  const inside = plane(width, height);
  fillPolygon(
    inside,
    FACE_OVAL.flatMap((index) => [(points[index * 3] as number) - 1.5, points[index * 3 + 1] as number]),
  );
  const data = new Uint8Array(picture.data.length);
  for (let i = 0; i < inside.data.length; i++) {
    const x = i % width;
    const seen = i - x + Math.min(width - 1, x <= from ? x : Math.round(from + (x - from) * narrower));
    const behind = x > from && !inside.data[i];
    for (let c = 0; c < 3; c++) data[i * 3 + c] = (behind ? ground[c] : picture.data[seen * 3 + c]) as number;
  }
  return { picture: { ...picture, data }, face: faceFromPoints(points, face.score) };
}

function swapped(from: Portrait): Uint8Array {
  const result = { ...target.picture, data: target.picture.data.slice() };
  swapFace(result, target.face, prepareSource(from.picture, from.face, target.face.width));
  return result.data as Uint8Array;
}

it('draws nothing of what is behind a source over the side that it turns away', () => {
  for (const narrower of [5, 8]) {
    const light = swapped(turned(source, narrower, [235, 205, 170]));
    const dark = swapped(turned(source, narrower, [150, 110, 90]));
    let different = 0;
    for (let i = 0; i < light.length; i += 3) {
      if (Math.abs((light[i] as number) - (dark[i] as number)) > 16) different++;
    }
    expect(different / target.face.width ** 2).toBeLessThan(0.002);
  }
});

it('tells what it would take, and draws no new face, when it is not to draw', () => {
  const prepared = prepareSource(source.picture, source.face, target.face.width);
  const copy = () => ({ ...target.picture, data: target.picture.data.slice() });
  const [looked, drawn] = [copy(), copy()];
  const taken = swapFace(looked, target.face, prepared, { draw: false });
  expect(taken).toEqual(swapFace(drawn, target.face, prepared));
  const changed = ({ data }: Picture) => data.filter((value, i) => value !== target.picture.data[i]).length;
  // Red eyes are calmed before anything is planned.
  expect(changed(looked)).toBeLessThan(500);
  expect(changed(drawn)).toBeGreaterThan(20_000);
});
