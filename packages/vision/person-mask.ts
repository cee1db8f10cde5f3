import type { PersonMask } from './person.ts';
import { squareCrop, toCrop, toPicture } from './picture.ts';

/** Returns a person's mask in the size of its picture: width × height, 0–255, zero outside the mask's square. */
export function maskInPicture(mask: PersonMask, width: number, height: number): Uint8Array {
  const { data, side, region } = mask;
  const out = new Uint8Array(width * height);
  const crop = squareCrop(region, region.size, region.angle, side);
  const corners = [0, side].flatMap((x) => [0, side].map((y) => toPicture(crop, x, y)));
  const bound = (values: number[], limit: number): [number, number] => [
    Math.max(0, Math.floor(Math.min(...values))),
    Math.min(limit, Math.ceil(Math.max(...values))),
  ];
  const [left, right] = bound(
    corners.map(({ x }) => x),
    width,
  );
  const [top, bottom] = bound(
    corners.map(({ y }) => y),
    height,
  );
  const cos = Math.cos(region.angle) / crop.scale;
  const sin = Math.sin(region.angle) / crop.scale;
  const last = side - 1;
  for (let y = top; y < bottom; y++) {
    let { x: u, y: v } = toCrop(crop, left + 0.5, y + 0.5);
    for (let x = left; x < right; x++, u += cos, v -= sin) {
      if (u < 0 || v < 0 || u >= side || v >= side) continue;
      const px = Math.min(last, Math.max(0, u - 0.5));
      const py = Math.min(last, Math.max(0, v - 0.5));
      const i = (py | 0) * side + (px | 0);
      const fx = px - (px | 0);
      const fy = py - (py | 0);
      const right1 = px < last ? 1 : 0;
      const below = py < last ? side : 0;
      const upper = (data[i] as number) * (1 - fx) + (data[i + right1] as number) * fx;
      const lower = (data[i + below] as number) * (1 - fx) + (data[i + below + right1] as number) * fx;
      out[y * width + x] = upper + (lower - upper) * fy + 0.5;
    }
  }
  return out;
}
