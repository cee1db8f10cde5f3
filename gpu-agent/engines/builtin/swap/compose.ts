import type { Picture, RgbImage } from '../vision/picture.ts';
import { relight } from './light.ts';
import { bundle, sampleBundle } from './plane.ts';
import type { SourceFace } from './source-face.ts';
import type { SwapPlan } from './swap-face.ts';
import { applyTone } from './tone.ts';
import type { WarpMap } from './warp-map.ts';

/**
 * Draws a planned swap into the picture at the picture's own resolution. Pixels whose share of the new face is zero
 * are not written at all.
 */
export function compose(picture: Picture, plan: SwapPlan, source: SourceFace): void {
  const { originX, originY, scale } = plan;
  const { data, channels } = picture;
  const depth = data instanceof Uint16Array ? 257 : 1;
  const colours = channels >= 3 ? 3 : 1;
  const endX = Math.min(picture.width, Math.ceil(originX + plan.width * scale));
  const endY = Math.min(picture.height, Math.ceil(originY + plan.height * scale));
  const before = region(picture, originX, originY, endX, endY);
  const rgb = new Float32Array(3);
  const kept = new Float32Array(3);
  const place = new Float32Array(2);
  const kind = { eye: 0, lips: 0, grey: source.grey };
  const grain = plan.grainShare;
  const shares = bundle([plan.alpha, plan.keep, plan.eyes, plan.lips]);
  const pixel = new Float32Array(shares.fields);
  for (let py = originY; py < endY; py++) {
    const y = (py - originY + 0.5) / scale;
    for (let px = originX; px < endX; px++) {
      const x = (px - originX + 0.5) / scale;
      sampleBundle(shares, x, y, pixel);
      const alpha = pixel[0] as number;
      if (alpha < 0.002) continue;
      const keep = pixel[1] as number;
      if (keep < 0.998) {
        look(plan.direct, x, y, place);
        sampleRgb(source.image, place[0] as number, place[1] as number, rgb);
        kind.eye = pixel[2] as number;
        kind.lips = pixel[3] as number;
        relight(plan.light, x, y, kind, rgb);
        if (plan.tone) applyTone(plan.tone, rgb);
        if (grain > 0) addGrain(rgb, before, px - originX, py - originY, grain);
      }
      if (keep > 0.002) {
        look(plan.own, x, y, place);
        sampleRgb(before, (place[0] as number) * scale, (place[1] as number) * scale, kept);
        for (let c = 0; c < 3; c++) rgb[c] = (rgb[c] as number) * (1 - keep) + (kept[c] as number) * keep;
      }
      const i = (py * picture.width + px) * channels;
      const b = ((py - originY) * before.width + px - originX) * 3;
      if (colours === 1) {
        const grey = 0.299 * (rgb[0] as number) + 0.587 * (rgb[1] as number) + 0.114 * (rgb[2] as number);
        data[i] = toSample((before.data[b] as number) * (1 - alpha) + grey * alpha, depth);
      } else {
        for (let c = 0; c < 3; c++) {
          data[i + c] = toSample(
            (before.data[b + c] as number) * (1 - alpha) + (rgb[c] as number) * alpha,
            depth,
          );
        }
      }
    }
  }
}

function toSample(value: number, depth: number): number {
  return Math.round(Math.min(255, Math.max(0, value)) * depth);
}

/** Largest amplitude that counts as texture of the skin. */
const GRAIN_LIMIT = 10;

/**
 * Adds the finest texture of the picture at this very place (film grain, sensor noise, pores) to a face that was
 * enlarged and so has none of its own: without it the face looks pasted in, too smooth for its surroundings.
 */
function addGrain(rgb: Float32Array, before: RgbImage, x: number, y: number, share: number): void {
  const { width, height, data } = before;
  let sum = 0;
  let count = 0;
  for (let dy = -2; dy <= 2; dy += 2) {
    const row = Math.min(height - 1, Math.max(0, y + dy)) * width;
    for (let dx = -2; dx <= 2; dx += 2) {
      const i = (row + Math.min(width - 1, Math.max(0, x + dx))) * 3;
      sum += data[i + 1] as number;
      count++;
    }
  }
  const detail = (data[(y * width + x) * 3 + 1] as number) - sum / count;
  const grain = share * Math.min(GRAIN_LIMIT, Math.max(-GRAIN_LIMIT, detail));
  for (let c = 0; c < 3; c++) rgb[c] = (rgb[c] as number) + grain;
}

/** Where a map points between its pixels; pixels that it does not cover are left out of the mean. */
function look(map: WarpMap, x: number, y: number, out: Float32Array): void {
  const { width, height } = map.x;
  const fx = Math.min(width - 1, Math.max(0, x - 0.5));
  const fy = Math.min(height - 1, Math.max(0, y - 0.5));
  const x0 = fx | 0;
  const y0 = fy | 0;
  const u = fx - x0;
  const v = fy - y0;
  const a = y0 * width + x0;
  const b = x0 + 1 < width ? a + 1 : a;
  const down = y0 + 1 < height ? width : 0;
  const covered = map.covered.data;
  const wa = (covered[a] as number) * (1 - u) * (1 - v);
  const wb = (covered[b] as number) * u * (1 - v);
  const wc = (covered[a + down] as number) * (1 - u) * v;
  const wd = (covered[b + down] as number) * u * v;
  const total = wa + wb + wc + wd;
  if (total < 1e-6) {
    out[0] = x;
    out[1] = y;
    return;
  }
  const mx = map.x.data;
  const my = map.y.data;
  out[0] =
    ((mx[a] as number) * wa +
      (mx[b] as number) * wb +
      (mx[a + down] as number) * wc +
      (mx[b + down] as number) * wd) /
    total;
  out[1] =
    ((my[a] as number) * wa +
      (my[b] as number) * wb +
      (my[a + down] as number) * wc +
      (my[b + down] as number) * wd) /
    total;
}

function region(picture: Picture, left: number, top: number, right: number, bottom: number): RgbImage {
  const width = right - left;
  const height = bottom - top;
  const { data, channels } = picture;
  const unit = data instanceof Uint16Array ? 1 / 257 : 1;
  const colours = channels >= 3;
  const out = new Float32Array(width * height * 3);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const from = ((top + y) * picture.width + left + x) * channels;
      const to = (y * width + x) * 3;
      out[to] = (data[from] as number) * unit;
      out[to + 1] = (data[from + (colours ? 1 : 0)] as number) * unit;
      out[to + 2] = (data[from + (colours ? 2 : 0)] as number) * unit;
    }
  }
  return { width, height, data: out };
}

/** Catmull-Rom would ring at hard edges; bilinear is what the patch's own resolution calls for. */
function sampleRgb(image: RgbImage, x: number, y: number, out: Float32Array): void {
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
