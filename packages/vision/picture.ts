import type { Picture } from '@semblance/engine-api/picture';

/** Work image: interleaved RGB floats, nominally 0–255 at any depth of the picture. */
export interface RgbImage {
  readonly width: number;
  readonly height: number;
  readonly data: Float32Array;
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

/**
 * Maps crop pixels to picture pixels: rotation, scale, shift. Coordinates are continuous: the centre of pixel i is
 * at i + 0.5.
 */
export interface CropTransform {
  /** Picture pixels per crop pixel. */
  readonly scale: number;
  /** Clockwise rotation of the crop's x axis in the picture (y down), in radians. */
  readonly angle: number;
  /** Position of the crop's origin in the picture. */
  readonly originX: number;
  readonly originY: number;
}

/**
 * Returns the transform of a crop of `size`² pixels that shows the square of `side` around a centre, rotated by
 * `angle`.
 */
export function squareCrop(center: Point, side: number, angle: number, size: number): CropTransform {
  const scale = side / size;
  const cos = Math.cos(angle) * scale;
  const sin = Math.sin(angle) * scale;
  const half = size / 2;
  return {
    scale,
    angle,
    originX: center.x - (cos * half - sin * half),
    originY: center.y - (sin * half + cos * half),
  };
}

/** Maps a point of the crop to the picture. */
export function toPicture(transform: CropTransform, x: number, y: number): Point {
  const cos = Math.cos(transform.angle) * transform.scale;
  const sin = Math.sin(transform.angle) * transform.scale;
  return { x: transform.originX + cos * x - sin * y, y: transform.originY + sin * x + cos * y };
}

/** Maps a point of the picture to the crop. */
export function toCrop(transform: CropTransform, x: number, y: number): Point {
  const cos = Math.cos(transform.angle) / transform.scale;
  const sin = Math.sin(transform.angle) / transform.scale;
  const dx = x - transform.originX;
  const dy = y - transform.originY;
  return { x: cos * dx + sin * dy, y: -sin * dx + cos * dy };
}

/**
 * Resamples part of a picture into a work image. Shrinking averages about as many picture pixels as a crop pixel
 * covers, at most `most` × `most`. Outside the picture the edge repeats.
 * @param out memory for the samples, width × height × 3; default: new memory
 */
export function cropRgb(
  picture: Picture,
  transform: CropTransform,
  width: number,
  height: number,
  most = 16,
  out = new Float32Array(width * height * 3),
): RgbImage {
  const { data, channels } = picture;
  const lastX = picture.width - 1;
  const lastY = picture.height - 1;
  const unit = data instanceof Uint16Array ? 1 / 257 : 1;
  const green = channels >= 3 ? 1 : 0;
  const blue = channels >= 3 ? 2 : 0;
  const stride = picture.width * channels;
  const taps = Math.min(most, Math.max(1, Math.round(transform.scale / 1.2)));
  const cos = Math.cos(transform.angle) * transform.scale;
  const sin = Math.sin(transform.angle) * transform.scale;
  if (taps > 1) return cropAveraged(picture, transform, { width, height, taps }, out);
  let o = 0;
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const px = Math.min(lastX, Math.max(0, transform.originX + cos * (x + 0.5) - sin * (y + 0.5) - 0.5));
      const py = Math.min(lastY, Math.max(0, transform.originY + sin * (x + 0.5) + cos * (y + 0.5) - 0.5));
      const x0 = px | 0;
      const y0 = py | 0;
      const fx = px - x0;
      const fy = py - y0;
      const i00 = y0 * stride + x0 * channels;
      const i01 = x0 < lastX ? i00 + channels : i00;
      const i10 = y0 < lastY ? i00 + stride : i00;
      const i11 = i10 + (i01 - i00);
      const w11 = fx * fy * unit;
      const w01 = fx * unit - w11;
      const w10 = fy * unit - w11;
      const w00 = unit - w01 - w10 - w11;
      // The colours are written out, because a loop over them takes twice as long.
      out[o] =
        (data[i00] as number) * w00 +
        (data[i01] as number) * w01 +
        (data[i10] as number) * w10 +
        (data[i11] as number) * w11;
      out[o + 1] =
        (data[i00 + green] as number) * w00 +
        (data[i01 + green] as number) * w01 +
        (data[i10 + green] as number) * w10 +
        (data[i11 + green] as number) * w11;
      out[o + 2] =
        (data[i00 + blue] as number) * w00 +
        (data[i01 + blue] as number) * w01 +
        (data[i10 + blue] as number) * w10 +
        (data[i11 + blue] as number) * w11;
      o += 3;
    }
  }
  return { width, height, data: out };
}

/** Whether a crop lies entirely inside the picture. */
function liesWithin(picture: Picture, transform: CropTransform, width: number, height: number): boolean {
  return [0, width].every((x) =>
    [0, height].every((y) => {
      const p = toPicture(transform, x, y);
      return p.x >= 0 && p.y >= 0 && p.x < picture.width - 1 && p.y < picture.height - 1;
    }),
  );
}

/** Computes each pixel as the mean of taps² picture pixels, evenly spaced under it. */
function cropAveraged(
  picture: Picture,
  transform: CropTransform,
  size: { width: number; height: number; taps: number },
  out: Float32Array,
): RgbImage {
  const { data, channels } = picture;
  const { width, height, taps } = size;
  const lastX = picture.width - 1;
  const lastY = picture.height - 1;
  const weight = (data instanceof Uint16Array ? 1 / 257 : 1) / (taps * taps);
  const green = channels >= 3 ? 1 : 0;
  const blue = channels >= 3 ? 2 : 0;
  const cos = (Math.cos(transform.angle) * transform.scale) / taps;
  const sin = (Math.sin(transform.angle) * transform.scale) / taps;
  const within = liesWithin(picture, transform, width, height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      let r = 0;
      let g = 0;
      let b = 0;
      for (let v = 0; v < taps; v++) {
        const cy = y * taps + v + 0.5;
        let px = transform.originX + cos * (x * taps + 0.5) - sin * cy;
        let py = transform.originY + sin * (x * taps + 0.5) + cos * cy;
        if (within) {
          for (let u = 0; u < taps; u++, px += cos, py += sin) {
            const i = ((py | 0) * picture.width + (px | 0)) * channels;
            r += data[i] as number;
            g += data[i + green] as number;
            b += data[i + blue] as number;
          }
          continue;
        }
        for (let u = 0; u < taps; u++, px += cos, py += sin) {
          const sx = px < 0 ? 0 : px > lastX ? lastX : px | 0;
          const sy = py < 0 ? 0 : py > lastY ? lastY : py | 0;
          const i = (sy * picture.width + sx) * channels;
          r += data[i] as number;
          g += data[i + green] as number;
          b += data[i + blue] as number;
        }
      }
      const o = (y * width + x) * 3;
      out[o] = r * weight;
      out[o + 1] = g * weight;
      out[o + 2] = b * weight;
    }
  }
  return { width, height, data: out };
}

/**
 * Shrinks a picture by averaging; `width` and `height` must not exceed the picture's. It takes up to 4 × 4 evenly
 * spaced pixels of each area, because a detector gains nothing from more.
 */
export function shrink(picture: Picture, width: number, height: number): Picture {
  const { data, channels } = picture;
  const unit = data instanceof Uint16Array ? 1 / 257 : 1;
  const green = channels >= 3 ? 1 : 0;
  const blue = channels >= 3 ? 2 : 0;
  const tapsX = Math.min(4, Math.max(1, Math.round(picture.width / width)));
  const tapsY = Math.min(4, Math.max(1, Math.round(picture.height / height)));
  const columns = Int32Array.from(
    { length: width * tapsX },
    (_, i) => Math.floor(((i + 0.5) * picture.width) / (width * tapsX)) * channels,
  );
  const scale = unit / (tapsX * tapsY);
  const out = new Uint8Array(width * height * 3);
  const sums = new Float64Array(width * 3);
  for (let y = 0; y < height; y++) {
    sums.fill(0);
    for (let t = 0; t < tapsY; t++) {
      const sy = Math.floor(((y * tapsY + t + 0.5) * picture.height) / (height * tapsY));
      const row = sy * picture.width * channels;
      for (let x = 0, k = 0; x < width; x++) {
        let r = 0;
        let g = 0;
        let b = 0;
        for (let end = k + tapsX; k < end; k++) {
          const i = row + (columns[k] as number);
          r += data[i] as number;
          g += data[i + green] as number;
          b += data[i + blue] as number;
        }
        sums[x * 3] = (sums[x * 3] as number) + r;
        sums[x * 3 + 1] = (sums[x * 3 + 1] as number) + g;
        sums[x * 3 + 2] = (sums[x * 3 + 2] as number) + b;
      }
    }
    for (let i = 0; i < sums.length; i++) out[y * width * 3 + i] = Math.round((sums[i] as number) * scale);
  }
  return { width, height, channels: 3, data: out };
}

/**
 * Interpolates red, green and blue bilinearly; the edge repeats. Catmull-Rom would ring at hard edges, and the
 * patch's own resolution needs no more.
 */
export function sampleRgb(image: RgbImage, x: number, y: number, out: Float32Array): void {
  const { width, height, data } = image;
  const px = Math.min(width - 1, Math.max(0, x - 0.5));
  const py = Math.min(height - 1, Math.max(0, y - 0.5));
  const x0 = px | 0;
  const y0 = py | 0;
  const right = x0 + 1 < width ? 3 : 0;
  const down = y0 + 1 < height ? width * 3 : 0;
  const u = px - x0;
  const v = py - y0;
  const i = (y0 * width + x0) * 3;
  for (let c = 0; c < 3; c++) {
    const top = (data[i + c] as number) * (1 - u) + (data[i + right + c] as number) * u;
    const bottom = (data[i + down + c] as number) * (1 - u) + (data[i + down + right + c] as number) * u;
    out[c] = top * (1 - v) + bottom * v;
  }
}
