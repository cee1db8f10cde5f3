import type { Picture } from '@semblance/engine-api/picture';
import type { Face } from '@semblance/vision/face-mesh';
import { withFlatObject } from './covered.ts';
import { faceFrame } from './face-frame.ts';
import { type HeadShape, mobility } from './head-shape.ts';
import { withWholeLids } from './lids.ts';
import type { Seen } from './look.ts';
import type { Planes } from './openings.ts';
import { separate } from './plate.ts';
import { type Portrait, withRig } from './portrait.ts';
import type { BytePlane } from './raster.ts';
import { scanTriangles } from './triangle-spans.ts';
import { planesOf, rgbToYuv } from './yuv.ts';

/**
 * Makes a portrait of a picture with a face.
 * @param picture RGB, 8 bits, of even width and height, which is the size of the frames
 * @param seen what networks see in the picture
 */
export function preparePortrait(picture: Picture, face: Face, seen: Seen = {}): Portrait {
  const { width, height, channels, data } = picture;
  if (width % 2 || height % 2 || channels !== 3 || data instanceof Uint16Array) {
    throw new RangeError('a portrait needs an 8-bit RGB picture of even size');
  }
  const { person } = seen;
  const covered = seen.covered && withWholeLids(seen.covered, face.points, picture);
  const frame = faceFrame(face.points);
  const points = withFlatObject(face.points, covered);
  const { shape, box, background, alpha } = separate(picture, points, frame, person);
  const still = rgbToYuv(data, width, height);
  // Outside the box nothing moves.
  const luma = new Uint8Array(width * height);
  const boxWidth = box.right - box.left;
  for (let y = box.top; y < box.bottom; y++) {
    const row = (y - box.top) * boxWidth;
    luma.set(alpha.subarray(row, row + boxWidth), y * width + box.left);
  }
  const chroma = new Uint8Array((width * height) / 4);
  for (let y = 0; y < height; y += 2) {
    for (let x = 0; x < width; x += 2) {
      const i = y * width + x;
      const sum =
        (luma[i] as number) +
        (luma[i + 1] as number) +
        (luma[i + width] as number) +
        (luma[i + width + 1] as number);
      chroma[((y >> 1) * width) / 2 + (x >> 1)] = sum / 4;
    }
  }
  return withRig({
    width,
    height,
    frame,
    shape,
    still,
    box,
    background: withinStill({ width, height, data: still }, box, background),
    alpha: { luma, chroma },
    ...(covered ? { covered } : {}),
    surround: sortSurround(shape, { width, height, data: luma }),
  });
}

/** Returns the planes of a still with other content in a box. */
function withinStill(
  { width, height, data }: BytePlane,
  { left, top, right, bottom }: Portrait['box'],
  content: Uint8Array,
): Planes {
  const planes = planesOf(data.slice(), width, height);
  const [w, h] = [right - left, bottom - top];
  const inside = planesOf(rgbToYuv(content, w, h), w, h);
  for (const [plane, per] of [
    ['y', 1],
    ['u', 2],
    ['v', 2],
  ] as const) {
    const from = inside[plane];
    const to = planes[plane];
    for (let y = 0; y < from.height; y++) {
      const row = from.data.subarray(y * from.width, (y + 1) * from.width);
      to.data.set(row, (top / per + y) * to.width + left / per);
    }
  }
  return planes;
}

/** Drops triangles that never move or are never visible. */
function sortSurround(shape: HeadShape, alpha: BytePlane): Portrait['surround'] {
  const opaque: number[] = [];
  const soft: number[] = [];
  const { surround, texture } = shape;
  const moves = mobility(shape);
  for (let t = 0; t < surround.length; t += 3) {
    const triangles = surround.subarray(t, t + 3);
    if (triangles.every((v) => (moves[v] as number) < 1e-3)) continue;
    let least = 255;
    let most = 0;
    scanTriangles(alpha, { to: texture, from: texture, triangles, scale: 1 }, (y, x0, x1) => {
      // One more pixel on each side, because colours are interpolated.
      for (let row = Math.max(0, y - 1); row <= Math.min(alpha.height - 1, y + 1); row++) {
        for (let x = Math.max(0, x0 - 1); x < Math.min(alpha.width, x1 + 1); x++) {
          const value = alpha.data[row * alpha.width + x] as number;
          if (value < least) least = value;
          if (value > most) most = value;
        }
      }
    });
    if (most > 0) (least === 255 ? opaque : soft).push(...triangles);
  }
  return { opaque: Uint16Array.from(opaque), soft: Uint16Array.from(soft) };
}
