import type { Picture, RgbImage } from '../vision/picture.ts';
import { relight } from './light.ts';
import { BundleRow, bundle, type Plane, plane } from './plane.ts';
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
  const kind = { eye: 0, lips: 0, feature: 0, grey: source.grey };
  const grain = plan.grainShare;
  const fields = bundle([
    plan.alpha,
    plan.keep,
    plan.eyes,
    plan.lips,
    plan.features,
    ...places(plan.direct),
    ...places(plan.own),
  ]);
  const pixel = new Float32Array(fields.fields);
  const row = new BundleRow(fields);
  const { values, coarseness } = plan.light;
  const light = new Float32Array(values.fields);
  const lightRow = new BundleRow(values);
  for (let py = originY; py < endY; py++) {
    const y = (py - originY + 0.5) / scale;
    row.moveTo(y);
    lightRow.moveTo(y / coarseness);
    for (let px = originX; px < endX; px++) {
      const x = (px - originX + 0.5) / scale;
      row.read(x, 0, 1, pixel);
      const alpha = pixel[0] as number;
      if (alpha < 0.002) continue;
      row.read(x, 1, DIRECT + 3, pixel);
      const keep = pixel[1] as number;
      if (keep < 0.998) {
        const known = pixel[DIRECT + 2] as number;
        // Where nothing is known `keep` is 1 all around; what rounding leaves is not worth a special case.
        const by = 1 / Math.max(known, 1e-6);
        sampleRgb(source.image, (pixel[DIRECT] as number) * by, (pixel[DIRECT + 1] as number) * by, rgb);
        kind.eye = pixel[2] as number;
        kind.lips = pixel[3] as number;
        kind.feature = pixel[4] as number;
        lightRow.read(x / coarseness, 0, values.fields, light);
        relight(light, kind, rgb);
        if (plan.tone) applyTone(plan.tone, rgb);
        if (grain > 0) addGrain(rgb, before, px - originX, py - originY, grain);
      }
      if (keep > 0.002) {
        row.read(x, OWN, OWN + 3, pixel);
        const known = pixel[OWN + 2] as number;
        const ownX = known < 1e-6 ? x : (pixel[OWN] as number) / known;
        const ownY = known < 1e-6 ? y : (pixel[OWN + 1] as number) / known;
        sampleRgb(before, ownX * scale, ownY * scale, kept);
        for (let c = 0; c < 3; c++) rgb[c] = (rgb[c] as number) * (1 - keep) + (kept[c] as number) * keep;
      }
      const i = (py * picture.width + px) * channels;
      const b = ((py - originY) * before.width + px - originX) * 3;
      if (colours === 1) {
        const grey = 0.299 * (rgb[0] as number) + 0.587 * (rgb[1] as number) + 0.114 * (rgb[2] as number);
        data[i] = toSample((before.data[b] as number) * (1 - alpha) + grey * alpha, depth);
      } else {
        for (let c = 0; c < 3; c++) {
          const mixed = (before.data[b + c] as number) * (1 - alpha) + (rgb[c] as number) * alpha;
          data[i + c] = toSample(mixed, depth);
        }
      }
    }
  }
}

/** First of the three fields of each map in the bundle that the pixels are read from. */
const DIRECT = 5;
const OWN = 8;

/** A map as fields that may be averaged: pixels that it does not cover weigh nothing. */
function places(map: WarpMap): Plane[] {
  const { width, height } = map.x;
  const out = [plane(width, height), plane(width, height)] as const;
  for (let i = 0; i < width * height; i++) {
    const known = map.covered.data[i] as number;
    out[0].data[i] = (map.x.data[i] as number) * known;
    out[1].data[i] = (map.y.data[i] as number) * known;
  }
  return [...out, map.covered];
}

function toSample(value: number, depth: number): number {
  return ((value <= 0 ? 0 : value >= 255 ? 255 : value) * depth + 0.5) | 0;
}

/** Largest amplitude that counts as texture of the skin. */
const GRAIN_LIMIT = 10;

/**
 * Adds the finest texture of the picture at this very place (film grain, sensor noise, pores) to a face that was
 * enlarged and so has none of its own: without it the face looks pasted in, too smooth for its surroundings.
 */
function addGrain(rgb: Float32Array, before: RgbImage, x: number, y: number, share: number): void {
  const { width, height, data } = before;
  const left = Math.max(0, x - 2) * 3 + 1;
  const right = Math.min(width - 1, x + 2) * 3 + 1;
  const above = Math.max(0, y - 2) * width * 3;
  const below = Math.min(height - 1, y + 2) * width * 3;
  const middle = y * width * 3;
  const here = data[middle + x * 3 + 1] as number;
  const sum =
    (data[above + left] as number) +
    (data[above + right] as number) +
    (data[below + left] as number) +
    (data[below + right] as number) +
    (data[middle + left] as number) +
    (data[middle + right] as number) +
    (data[above + x * 3 + 1] as number) +
    (data[below + x * 3 + 1] as number) +
    here;
  const grain = share * Math.min(GRAIN_LIMIT, Math.max(-GRAIN_LIMIT, here - sum / 9));
  rgb[0] = (rgb[0] as number) + grain;
  rgb[1] = (rgb[1] as number) + grain;
  rgb[2] = (rgb[2] as number) + grain;
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
