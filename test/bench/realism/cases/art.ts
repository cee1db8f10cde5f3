import type { Picture } from '@semblance/engine-api/picture';
import { seeded } from '@semblance/testkit/sound/random';
import type { Face } from '@semblance/vision/face-mesh';
import {
  LEFT_EYE,
  LEFT_LIDS,
  LIPS_INNER,
  LIPS_OUTER,
  RIGHT_EYE,
  RIGHT_LIDS,
} from '@semblance/vision/face-regions';
import { blur, fillPolygon, type Plane, plane } from '@semblance/vision/plane/plane';
import sharp from 'sharp';

/** Colours of lipstick and of eye shadow, as levels. */
const LIPSTICKS = [
  [150, 20, 45],
  [205, 40, 70],
  [90, 25, 60],
  [190, 60, 120],
] as const;
const SHADOWS = [
  [60, 70, 140],
  [90, 60, 100],
  [40, 110, 100],
  [70, 50, 40],
] as const;
const BLUSH = [215, 90, 90] as const;
const LINER = [20, 15, 20] as const;
/** Middles of both cheeks. */
const CHEEKS = [50, 280] as const;

/** Puts on lipstick, eye shadow, liner and blush. @param seed chooses the colours */
export function makeUp(picture: Picture, face: Face, seed: number): Picture {
  const random = seeded(seed);
  const one = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)] as T;
  const data = Uint8Array.from(picture.data);
  const out: Picture = { ...picture, channels: 3, data };
  const area = (outlines: readonly (readonly number[])[], without: readonly (readonly number[])[]): Plane => {
    const mask = plane(picture.width, picture.height);
    for (const [value, list] of [
      [1, outlines],
      [0, without],
    ] as const)
      for (const outline of list) fillPolygon(mask, placesOf(outline, face), value);
    return mask;
  };
  const eyes = [RIGHT_EYE, LEFT_EYE];
  const cheeks = plane(picture.width, picture.height);
  for (const point of CHEEKS) {
    const [x, y] = placesOf([point], face) as [number, number];
    const ring = Array.from({ length: 24 }, (_, k) => (k * Math.PI) / 12);
    const r = 0.09 * face.width;
    fillPolygon(
      cheeks,
      ring.flatMap((angle) => [x + r * Math.cos(angle), y + r * Math.sin(angle)]),
    );
  }
  const soft = (mask: Plane, share: number): Plane => blur(mask, share * face.width);
  paint(out, soft(cheeks, 0.05), BLUSH, 0.4);
  paint(out, soft(area([RIGHT_LIDS, LEFT_LIDS], eyes), 0.015), one(SHADOWS), 0.6);
  const lashes = area(eyes, []);
  const edge = soft(lashes, 0.008);
  for (let i = 0; i < edge.data.length; i++) if (lashes.data[i]) edge.data[i] = 0;
  paint(out, edge, LINER, 1);
  paint(out, soft(area([LIPS_OUTER], [LIPS_INNER]), 0.004), one(LIPSTICKS), 0.75);
  return out;
}

const placesOf = (outline: readonly number[], { points }: Face): number[] =>
  outline.flatMap((index) => [points[index * 3] as number, points[index * 3 + 1] as number]);

/** Mixes a colour into a picture; the skin's light and texture stay. */
function paint({ data }: Picture, mask: Plane, colour: readonly number[], strength: number): void {
  for (let i = 0; i < mask.data.length; i++) {
    const share = strength * (mask.data[i] as number);
    if (share === 0) continue;
    const [r, g, b] = [0, 1, 2].map((c) => data[i * 3 + c] as number) as [number, number, number];
    const light = 0.35 + 0.65 * ((0.299 * r + 0.587 * g + 0.114 * b) / 160);
    for (let c = 0; c < 3; c++) {
      const here = data[i * 3 + c] as number;
      const wanted = Math.min(255, (colour[c] as number) * light);
      data[i * 3 + c] = here + share * (wanted - here);
    }
  }
}

/** Radius of a brush, as a share of the face width, and the depth of the canvas in levels. */
const BRUSH = 0.022;
const CANVAS = 7;

/**
 * Returns the picture as an oil painting: each pixel takes the mean of the most even of four squares around it
 * (Kuwahara and others 1976), on the weave of a canvas.
 */
export async function painted(picture: Picture, face: Face): Promise<Picture> {
  const { width, height } = picture;
  const r = Math.max(2, Math.round(BRUSH * face.width));
  const sums = [0, 1, 2, 3].map((k) => integral(picture, k));
  const mean = (k: number, x0: number, y0: number, x1: number, y1: number): number => {
    const at = (x: number, y: number): number => (sums[k] as Float64Array)[y * (width + 1) + x] as number;
    return (at(x1, y1) - at(x0, y1) - at(x1, y0) + at(x0, y0)) / ((x1 - x0) * (y1 - y0));
  };
  const data = new Uint8Array(width * height * 3);
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      let best = Infinity;
      let colour = [0, 0, 0];
      for (const [dx, dy] of [
        [-r, -r],
        [0, -r],
        [-r, 0],
        [0, 0],
      ] as const) {
        const x0 = Math.max(0, x + dx);
        const y0 = Math.max(0, y + dy);
        const x1 = Math.min(width, x + dx + r + 1);
        const y1 = Math.min(height, y + dy + r + 1);
        const means = [0, 1, 2].map((k) => mean(k, x0, y0, x1, y1));
        const bright = means.reduce((sum, value) => sum + value, 0) / 3;
        const spread = mean(3, x0, y0, x1, y1) - bright * bright;
        if (spread < best) [best, colour] = [spread, means];
      }
      const weave = CANVAS * Math.sin(1.3 * x) * Math.sin(1.3 * y);
      for (let c = 0; c < 3; c++)
        data[(y * width + x) * 3 + c] = Math.min(255, Math.max(0, (colour[c] as number) + weave));
    }
  // Oil is more colourful than a photograph.
  const vivid = await sharp(data, { raw: { width, height, channels: 3 } })
    .modulate({ saturation: 1.25 })
    .raw()
    .toBuffer();
  return { width, height, channels: 3, data: new Uint8Array(vivid) };
}

/** Returns the summed area table of a channel, or of squared brightness (channel 3). */
function integral({ width, height, data }: Picture, channel: number): Float64Array {
  const out = new Float64Array((width + 1) * (height + 1));
  for (let y = 0; y < height; y++) {
    let row = 0;
    for (let x = 0; x < width; x++) {
      const at = (y * width + x) * 3;
      row +=
        channel < 3
          ? (data[at + channel] as number)
          : (((data[at] as number) + (data[at + 1] as number) + (data[at + 2] as number)) / 3) ** 2;
      out[(y + 1) * (width + 1) + x + 1] = (out[y * (width + 1) + x + 1] as number) + row;
    }
  }
  return out;
}
