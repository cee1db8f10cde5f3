import { POINTS } from '@semblance/vision/face-mesh';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import { BODY, BODY_POINTS } from '@semblance/vision/person';
import { distanceInside, plane } from '@semblance/vision/plane/plane';
import { describe, expect, it } from 'vitest';
import { planesOf } from '../animate/yuv.ts';
import { HairFinder } from './long-hair.ts';
import { skeletonOf } from './skeleton.ts';

const [W, H] = [320, 320];
const IOD = 40;
const EYES = { x: 160, y: 110 };
const CHIN = 1.75;

type Colour = readonly [y: number, u: number, v: number];
const ROOM: Colour = [150, 160, 110];
const SKIN: Colour = [160, 112, 150];
const HAIR: Colour = [40, 126, 132];
const CLOTHES: Colour = [205, 128, 128];

/** Draws a person from the chest up; the hair reaches to a height below the eyes, in eye distances. */
function person(hairEnd: number, clothes: Colour) {
  const data = new Uint8Array((W * H * 3) / 2);
  const planes = planesOf(data, W, H);
  const free = plane(W / 2, H / 2);
  for (let y = 0; y < H; y++) {
    for (let x = 0; x < W; x++) {
      const [u, v] = [(x - EYES.x) / IOD, (y - EYES.y) / IOD];
      let colour = ROOM;
      const isTrunk = v > 2.7 + 0.25 * Math.abs(u) && Math.abs(u) < 3;
      if (isTrunk) colour = clothes;
      if (Math.abs(u) < 0.75 && v > 0 && v < 3) colour = SKIN;
      const isHair = Math.hypot(u, v + 0.1) < 1.75 || (Math.abs(u) > 0.85 && Math.abs(u) < 1.7 && v > 0);
      if (isHair && v < hairEnd) colour = HAIR;
      if (Math.hypot(u / 1.1, (v - 0.55) / 1.2) < 1) colour = SKIN;
      planes.y.data[y * W + x] = colour[0];
      const c = (y >> 1) * (W / 2) + (x >> 1);
      planes.u.data[c] = colour[1];
      planes.v.data[c] = colour[2];
      free.data[c] = colour === ROOM ? 1 : 0;
    }
  }
  const face = new Float32Array(POINTS * 2);
  FACE_OVAL.forEach((i, k) => {
    const angle = (2 * Math.PI * k) / FACE_OVAL.length;
    face[i * 2] = EYES.x + 1.1 * IOD * Math.sin(angle);
    face[i * 2 + 1] = EYES.y + IOD * (0.55 - 1.2 * Math.cos(angle));
  });
  const points = Array.from({ length: BODY_POINTS }, () => ({
    ...{ x: EYES.x, y: EYES.y, z: 0, visibility: 1, presence: 1 },
  }));
  for (const [name, u, v] of [
    ['leftShoulder', 2.2, 3.6],
    ['rightShoulder', -2.2, 3.6],
    ['leftHip', 1.5, 9],
    ['rightHip', -1.5, 9],
    ['mouthLeft', 0.3, 1.1],
    ['mouthRight', -0.3, 1.1],
  ] as const)
    points[BODY[name]] = {
      ...(points[0] as (typeof points)[0]),
      x: EYES.x + u * IOD,
      y: EYES.y + v * IOD,
    };
  const spot = { ...EYES, iod: IOD, angle: Math.PI / 2 };
  return { planes, distance: distanceInside(free, false), face, spot, of: skeletonOf(points) };
}

const at = (u: number, v: number): number => Math.round(EYES.y + v * IOD) * W + Math.round(EYES.x + u * IOD);

describe('long hair of a person', () => {
  it('is replaced by the clothes where it lies on them, and found before the background', () => {
    const { planes, distance, face, spot, of } = person(4.2, CLOTHES);
    const hair = new HairFinder().look(planes, distance, { face, spot, chin: CHIN, of });
    if (!hair) throw new Error('no long hair was found');
    hair.cover(planes);
    for (const u of [-1.3, 1.3]) {
      expect(planes.y.data[at(u, 3.8)]).toBeGreaterThan(180);
      const i = at(u, 1.8);
      const chroma = ((i / W) >> 1) * (W / 2) + ((i % W) >> 1);
      expect(hair.free.data[chroma]).toBeGreaterThan(0.9);
    }
    expect(planes.y.data[at(0, 2.2)]).toBe(SKIN[0]);
  });

  it('is not seen in dark clothes below short hair', () => {
    const { planes, distance, face, spot, of } = person(0.6, HAIR);
    expect(new HairFinder().look(planes, distance, { face, spot, chin: CHIN, of })).toBeUndefined();
  });
});
