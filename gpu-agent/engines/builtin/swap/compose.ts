import type { Picture, RgbImage } from '../vision/picture.ts';
import { relight } from './light.ts';
import { sample } from './plane.ts';
import type { SourceFace } from './source-face.ts';
import type { SwapPlan } from './swap-face.ts';

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
  const mirror = new Float32Array(3);
  const kept = new Float32Array(3);
  for (let py = originY; py < endY; py++) {
    const y = (py - originY + 0.5) / scale;
    for (let px = originX; px < endX; px++) {
      const x = (px - originX + 0.5) / scale;
      const alpha = sample(plan.alpha, x, y);
      if (alpha < 0.002) continue;
      const keep = sample(plan.keep, x, y);
      if (keep < 0.998) {
        sampleRgb(
          source.image,
          mapped(plan.direct.x, plan.direct.covered.data, x, y),
          mapped(plan.direct.y, plan.direct.covered.data, x, y),
          rgb,
        );
        const share = sample(plan.mirrorShare, x, y);
        if (share > 0.002) {
          sampleRgb(
            source.image,
            mapped(plan.mirrored.x, plan.mirrored.covered.data, x, y),
            mapped(plan.mirrored.y, plan.mirrored.covered.data, x, y),
            mirror,
          );
          for (let c = 0; c < 3; c++)
            rgb[c] = (rgb[c] as number) * (1 - share) + (mirror[c] as number) * share;
        }
        relight(plan.light, x, y, sample(plan.eyes, x, y), rgb);
      }
      if (keep > 0.002 || source.grey) {
        sampleRgb(
          before,
          mapped(plan.own.x, plan.own.covered.data, x, y) * scale,
          mapped(plan.own.y, plan.own.covered.data, x, y) * scale,
          kept,
        );
        if (source.grey) recolour(rgb, kept);
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

/** Gives a grey source the colour that the target has at the same place. */
function recolour(rgb: Float32Array, own: Float32Array): void {
  const y = 0.299 * (rgb[0] as number) + 0.587 * (rgb[1] as number) + 0.114 * (rgb[2] as number);
  const t = 0.299 * (own[0] as number) + 0.587 * (own[1] as number) + 0.114 * (own[2] as number);
  const scale = (y + 4) / (t + 4);
  for (let c = 0; c < 3; c++) rgb[c] = y + ((own[c] as number) - t) * Math.min(1.6, scale);
}

/** A map's value between pixels; pixels that the map does not cover are left out of the mean. */
function mapped(
  values: { width: number; height: number; data: Float32Array },
  covered: Float32Array,
  x: number,
  y: number,
): number {
  const { width, height, data } = values;
  const fx = Math.min(width - 1, Math.max(0, x - 0.5));
  const fy = Math.min(height - 1, Math.max(0, y - 0.5));
  const x0 = fx | 0;
  const y0 = fy | 0;
  const x1 = x0 + 1 < width ? x0 + 1 : x0;
  const y1 = y0 + 1 < height ? y0 + 1 : y0;
  const u = fx - x0;
  const v = fy - y0;
  const a = y0 * width + x0;
  const b = y0 * width + x1;
  const c = y1 * width + x0;
  const d = y1 * width + x1;
  const wa = (covered[a] as number) * (1 - u) * (1 - v);
  const wb = (covered[b] as number) * u * (1 - v);
  const wc = (covered[c] as number) * (1 - u) * v;
  const wd = (covered[d] as number) * u * v;
  const total = wa + wb + wc + wd;
  if (total < 1e-6) return x;
  return (
    ((data[a] as number) * wa +
      (data[b] as number) * wb +
      (data[c] as number) * wc +
      (data[d] as number) * wd) /
    total
  );
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
