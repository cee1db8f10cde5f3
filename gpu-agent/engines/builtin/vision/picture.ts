/**
 * A decoded picture in memory: interleaved samples, rows without padding. One channel is grey, two are grey and
 * alpha, three are RGB and four are RGB and alpha. Samples of 16 bits run to 65535, others to 255.
 */
export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly channels: 1 | 2 | 3 | 4;
  readonly data: Uint8Array | Uint16Array;
}

/** A work image: interleaved RGB as floats, nominally 0–255 whatever depth the picture had. */
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
 * Maps crop pixels to picture pixels: turn by an angle, scale, shift. Coordinates are continuous: the centre of
 * pixel i is at i + 0.5.
 */
export interface CropTransform {
  /** Picture pixels per crop pixel. */
  readonly scale: number;
  /** Clockwise turn of the crop's x axis in the picture (y down), radians. */
  readonly angle: number;
  /** Where the crop's origin lies in the picture. */
  readonly originX: number;
  readonly originY: number;
}

/** The transform of a crop of `size`² pixels that shows the square of `side` around a centre, turned by `angle`. */
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

/** A crop's point in the picture. */
export function toPicture(transform: CropTransform, x: number, y: number): Point {
  const cos = Math.cos(transform.angle) * transform.scale;
  const sin = Math.sin(transform.angle) * transform.scale;
  return { x: transform.originX + cos * x - sin * y, y: transform.originY + sin * x + cos * y };
}

/** A picture's point in the crop. */
export function toCrop(transform: CropTransform, x: number, y: number): Point {
  const cos = Math.cos(transform.angle) / transform.scale;
  const sin = Math.sin(transform.angle) / transform.scale;
  const dx = x - transform.originX;
  const dy = y - transform.originY;
  return { x: cos * dx + sin * dy, y: -sin * dx + cos * dy };
}

/**
 * Resamples part of a picture into a work image. Shrinking averages (one bilinear sample for each picture pixel that
 * a crop pixel covers, at most 16 × 16); outside the picture the edge repeats.
 */
export function cropRgb(picture: Picture, transform: CropTransform, width: number, height: number): RgbImage {
  const { data, channels } = picture;
  const lastX = picture.width - 1;
  const lastY = picture.height - 1;
  const unit = data instanceof Uint16Array ? 1 / 257 : 1;
  const green = channels >= 3 ? 1 : 0;
  const blue = channels >= 3 ? 2 : 0;
  const stride = picture.width * channels;
  const taps = Math.min(16, Math.max(1, Math.round(transform.scale)));
  const weight = unit / (taps * taps);
  const cos = Math.cos(transform.angle) * transform.scale;
  const sin = Math.sin(transform.angle) * transform.scale;
  const out = new Float32Array(width * height * 3);
  let o = 0;
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      let r = 0;
      let g = 0;
      let b = 0;
      for (let t = 0; t < taps * taps; t++) {
        const cx = x + ((t % taps) + 0.5) / taps;
        const cy = y + (((t / taps) | 0) + 0.5) / taps;
        const px = Math.min(lastX, Math.max(0, transform.originX + cos * cx - sin * cy - 0.5));
        const py = Math.min(lastY, Math.max(0, transform.originY + sin * cx + cos * cy - 0.5));
        const x0 = px | 0;
        const y0 = py | 0;
        const fx = px - x0;
        const fy = py - y0;
        const i00 = y0 * stride + x0 * channels;
        const i01 = x0 < lastX ? i00 + channels : i00;
        const i10 = y0 < lastY ? i00 + stride : i00;
        const i11 = i10 + (i01 - i00);
        const w11 = fx * fy;
        const w01 = fx - w11;
        const w10 = fy - w11;
        const w00 = 1 - fx - w10;
        r += (data[i00] as number) * w00 + (data[i01] as number) * w01;
        r += (data[i10] as number) * w10 + (data[i11] as number) * w11;
        g += (data[i00 + green] as number) * w00 + (data[i01 + green] as number) * w01;
        g += (data[i10 + green] as number) * w10 + (data[i11 + green] as number) * w11;
        b += (data[i00 + blue] as number) * w00 + (data[i01 + blue] as number) * w01;
        b += (data[i10 + blue] as number) * w10 + (data[i11 + blue] as number) * w11;
      }
      out[o++] = r * weight;
      out[o++] = g * weight;
      out[o++] = b * weight;
    }
  }
  return { width, height, data: out };
}

/** Shrinks a picture by averaging whole areas; `width` and `height` must not exceed the picture's. */
export function shrink(picture: Picture, width: number, height: number): Picture {
  const { data, channels } = picture;
  const unit = data instanceof Uint16Array ? 1 / 257 : 1;
  const colours = channels >= 3 ? 3 : 1;
  const out = new Uint8Array(width * height * 3);
  const left = Int32Array.from({ length: width + 1 }, (_, x) => Math.floor((x * picture.width) / width));
  const sums = new Float64Array(width * 3);
  for (let y = 0; y < height; y++) {
    const top = Math.floor((y * picture.height) / height);
    const bottom = Math.max(top + 1, Math.floor(((y + 1) * picture.height) / height));
    sums.fill(0);
    for (let sy = top; sy < bottom; sy++) {
      let i = sy * picture.width * channels;
      for (let x = 0; x < width; x++) {
        let r = 0;
        let g = 0;
        let b = 0;
        for (let sx = (left[x + 1] as number) - (left[x] as number); sx > 0; sx--) {
          r += data[i] as number;
          if (colours === 3) {
            g += data[i + 1] as number;
            b += data[i + 2] as number;
          }
          i += channels;
        }
        sums[x * 3] = (sums[x * 3] as number) + r;
        sums[x * 3 + 1] = (sums[x * 3 + 1] as number) + (colours === 3 ? g : r);
        sums[x * 3 + 2] = (sums[x * 3 + 2] as number) + (colours === 3 ? b : r);
      }
    }
    for (let x = 0; x < width; x++) {
      const count = ((left[x + 1] as number) - (left[x] as number)) * (bottom - top);
      for (let c = 0; c < 3; c++) {
        out[(y * width + x) * 3 + c] = Math.round(((sums[x * 3 + c] as number) * unit) / count);
      }
    }
  }
  return { width, height, channels: 3, data: out };
}
