import type { RgbImage } from '../picture.ts';
import { type Plane, plane, smoothstep } from './plane.ts';

/** Colours with weights at one resolution. */
interface Level {
  readonly width: number;
  readonly height: number;
  /** Red, green, blue (each times the weight) and the weight. */
  readonly data: Float32Array;
}

const FIELDS = 4;

/**
 * Fills the parts of a face that hair, a hand or a frame hides, from the visible parts. Known colours are averaged
 * down a pyramid and fill the unknown pixels on the way up (push-pull; Gortler et al. 1996). Changes the image.
 * @param visible 1 where the patch shows the face, on the grid of `coarse`
 * @param scale pixels of `visible` per pixel of `image`
 */
export function fillHidden(image: RgbImage, smooth: RgbImage, visible: Plane, scale: number): void {
  const { width, height, data } = image;
  const { width: w, height: h } = smooth;
  for (let y = 0; y < height; y++) {
    const gy = Math.min(h - 1, Math.max(0, (y + 0.5) * scale - 0.5));
    const y0 = gy | 0;
    const v = gy - y0;
    const down = y0 + 1 < h ? w : 0;
    for (let x = 0; x < width; x++) {
      const gx = Math.min(w - 1, Math.max(0, (x + 0.5) * scale - 0.5));
      const x0 = gx | 0;
      const u = gx - x0;
      const a = y0 * w + x0;
      const b = x0 + 1 < w ? a + 1 : a;
      const see = visible.data;
      const seen =
        ((see[a] as number) * (1 - u) + (see[b] as number) * u) * (1 - v) +
        ((see[a + down] as number) * (1 - u) + (see[b + down] as number) * u) * v;
      const hidden = 1 - smoothstep(0.5, 1, seen);
      if (hidden < 0.002) continue;
      const o = (y * width + x) * 3;
      for (let c = 0; c < 3; c++) {
        const s = smooth.data;
        const value =
          ((s[a * 3 + c] as number) * (1 - u) + (s[b * 3 + c] as number) * u) * (1 - v) +
          ((s[(a + down) * 3 + c] as number) * (1 - u) + (s[(b + down) * 3 + c] as number) * u) * v;
        data[o + c] = (data[o + c] as number) * (1 - hidden) + value * hidden;
      }
    }
  }
}

export function pushPull(image: RgbImage, visible: Plane): RgbImage {
  const { width, height } = image;
  const first: Level = { width, height, data: new Float32Array(width * height * FIELDS) };
  for (let i = 0; i < width * height; i++) {
    const w = visible.data[i] as number;
    first.data[i * FIELDS] = (image.data[i * 3] as number) * w;
    first.data[i * FIELDS + 1] = (image.data[i * 3 + 1] as number) * w;
    first.data[i * FIELDS + 2] = (image.data[i * 3 + 2] as number) * w;
    first.data[i * FIELDS + 3] = w;
  }
  const levels = [first];
  for (let last = first; last.width > 1 || last.height > 1; ) {
    last = pull(last);
    levels.push(last);
  }
  for (let k = levels.length - 2; k >= 0; k--) push(levels[k] as Level, levels[k + 1] as Level);
  const out = plane(width * 3, height).data;
  for (let i = 0; i < width * height; i++) {
    const w = Math.max(1e-6, first.data[i * FIELDS + 3] as number);
    for (let c = 0; c < 3; c++) out[i * 3 + c] = (first.data[i * FIELDS + c] as number) / w;
  }
  return { width, height, data: out };
}

function pull(fine: Level): Level {
  const width = Math.max(1, fine.width >> 1);
  const height = Math.max(1, fine.height >> 1);
  const data = new Float32Array(width * height * FIELDS);
  const from = fine.data;
  for (let y = 0, o = 0; y < height; y++) {
    const upper = y * 2 * fine.width;
    const lower = Math.min(fine.height - 1, y * 2 + 1) * fine.width;
    for (let x = 0; x < width; x++, o += FIELDS) {
      const right = Math.min(fine.width - 1, x * 2 + 1);
      const [a, b] = [(upper + x * 2) * FIELDS, (upper + right) * FIELDS];
      const [c, d] = [(lower + x * 2) * FIELDS, (lower + right) * FIELDS];
      const at = (f: number): number =>
        (from[a + f] as number) + (from[b + f] as number) + (from[c + f] as number) + (from[d + f] as number);
      const by = 1 / Math.max(1, at(FIELDS - 1));
      for (let f = 0; f < FIELDS; f++) data[o + f] = at(f) * by;
    }
  }
  return { width, height, data };
}

/** Fills the missing weight of a level from the coarser level, with interpolation. */
function push(fine: Level, coarse: Level): void {
  const { width: w, height: h } = coarse;
  for (let y = 0; y < fine.height; y++) {
    const gy = Math.min(h - 1, Math.max(0, (y + 0.5) / 2 - 0.5));
    const y0 = gy | 0;
    const v = gy - y0;
    const down = y0 + 1 < h ? w * FIELDS : 0;
    for (let x = 0; x < fine.width; x++) {
      const o = (y * fine.width + x) * FIELDS;
      const lack = 1 - (fine.data[o + 3] as number);
      if (lack <= 0) continue;
      const gx = Math.min(w - 1, Math.max(0, (x + 0.5) / 2 - 0.5));
      const x0 = gx | 0;
      const u = gx - x0;
      const a = (y0 * w + x0) * FIELDS;
      const right = x0 + 1 < w ? FIELDS : 0;
      for (let c = 0; c < FIELDS; c++) {
        const value =
          ((coarse.data[a + c] as number) * (1 - u) + (coarse.data[a + right + c] as number) * u) * (1 - v) +
          ((coarse.data[a + down + c] as number) * (1 - u) +
            (coarse.data[a + down + right + c] as number) * u) *
            v;
        fine.data[o + c] = (fine.data[o + c] as number) + lack * value;
      }
    }
  }
}
