import type { Picture } from '@semblance/engine-api/picture';
import { sampleRgb } from '@semblance/vision/picture';
import { cubicSample } from '@semblance/vision/plane/cubic';
import { BundleRow, bundle, type Plane, plane } from '@semblance/vision/plane/plane';
import type { WarpMap } from '@semblance/vision/plane/warp-map';
import { addGrain, region } from './grain.ts';
import { LIGHT } from './light.ts';
import { KIND, relight } from './relight.ts';
import type { SourceFace } from './source-face.ts';
import type { SwapPlan } from './swap-plan.ts';
import { applyTone } from './tone.ts';

/**
 * Draws a planned swap into the picture at the resolution of the picture. Pixels without a share of the new face
 * are not written at all.
 */
export function compose(picture: Picture, plan: SwapPlan, source: SourceFace): void {
  const { originX, originY, scale, tone } = plan;
  const { data, channels } = picture;
  const depth = data instanceof Uint16Array ? 257 : 1;
  const unit = 1 / depth;
  const green = channels >= 3 ? 1 : 0;
  const blue = channels >= 3 ? 2 : 0;
  const endX = Math.min(picture.width, Math.ceil(originX + plan.width * scale));
  const endY = Math.min(picture.height, Math.ceil(originY + plan.height * scale));
  const before = region(picture, originX, originY, endX, endY);
  const rgb = new Float32Array(3);
  const kept = new Float32Array(4);
  const kind = new Float32Array(KIND.count);
  const { grain } = plan;
  const fields = bundle([
    plan.alpha,
    plan.skin.share,
    plan.eyes,
    plan.lips,
    plan.features,
    ...places(plan.direct),
    ...places(plan.own),
    ...plan.skin.correction,
  ]);
  const row = new BundleRow(fields);
  const values = row.values;
  const last = fields.width - 1;
  const light = new Float32Array(LIGHT.count);
  const lightRow = new BundleRow(plan.light.values);
  const toLight = 1 / (scale * plan.light.coarseness);
  for (let py = originY; py < endY; py++) {
    row.moveTo((py - originY + 0.5) / scale);
    const span = spanOf(values, fields.width);
    if (span.end <= span.start) continue;
    lightRow.moveTo((py - originY + 0.5) * toLight);
    const to = Math.min(endX, Math.ceil(originX + (span.end + 1) * scale));
    for (let px = Math.max(originX, Math.floor(originX + (span.start - 1) * scale)); px < to; px++) {
      const place = (px - originX + 0.5) / scale - 0.5;
      const gx = place < 0 ? 0 : place > last ? last : place;
      const x0 = gx | 0;
      const u = gx - x0;
      const i = x0 * FIELDS;
      const j = x0 < last ? i + FIELDS : i;
      const alpha = between(values, i, j, u);
      if (alpha < 0.002) continue;
      const keep = 1 - between(values, i + 1, j + 1, u);
      if (keep < 0.998) {
        // Where nothing is known, `keep` is 1 all around, so rounding errors have no effect.
        const by = 1 / Math.max(between(values, i + DIRECT + 2, j + DIRECT + 2, u), 1e-6);
        const sourceX = between(values, i + DIRECT, j + DIRECT, u) * by;
        const sourceY = between(values, i + DIRECT + 1, j + DIRECT + 1, u) * by;
        sampleRgb(source.image, sourceX, sourceY, rgb);
        kind[KIND.eye] = between(values, i + 2, j + 2, u);
        kind[KIND.lips] = between(values, i + 3, j + 3, u);
        kind[KIND.feature] = between(values, i + 4, j + 4, u);
        lightRow.read((px - originX + 0.5) * toLight, light);
        relight(light, kind, source.grey, rgb);
        if (tone) applyTone(tone, rgb);
        if (grain.share > 0) addGrain(rgb, before, px - originX, py - originY, grain);
      }
      for (let c = 0; c < 3; c++) rgb[c] = (rgb[c] as number) * (1 - keep) * plan.skin.sharpness;
      if (keep > 0.002) {
        const known = between(values, i + OWN + 2, j + OWN + 2, u);
        const ownX =
          known < 1e-6 ? (px - originX + 0.5) / scale : between(values, i + OWN, j + OWN, u) / known;
        const ownY =
          known < 1e-6 ? (py - originY + 0.5) / scale : between(values, i + OWN + 1, j + OWN + 1, u) / known;
        cubicSample(before, ownX * scale - 0.5, ownY * scale - 0.5, kept);
        const share = keep * unit;
        rgb[0] = (rgb[0] as number) + (kept[0] as number) * share;
        rgb[1] = (rgb[1] as number) + (kept[green] as number) * share;
        rgb[2] = (rgb[2] as number) + (kept[blue] as number) * share;
      }
      for (let c = 0; c < 3; c++)
        rgb[c] = (rgb[c] as number) + between(values, i + CORRECTION + c, j + CORRECTION + c, u);
      const o = (py * picture.width + px) * channels;
      const r = (data[o] as number) * unit * (1 - alpha) + (rgb[0] as number) * alpha;
      const g = (data[o + green] as number) * unit * (1 - alpha) + (rgb[1] as number) * alpha;
      const b = (data[o + blue] as number) * unit * (1 - alpha) + (rgb[2] as number) * alpha;
      if (channels < 3) {
        data[o] = toSample(0.299 * r + 0.587 * g + 0.114 * b, depth);
      } else {
        data[o] = toSample(r, depth);
        data[o + 1] = toSample(g, depth);
        data[o + 2] = toSample(b, depth);
      }
    }
  }
}

/** Index of the first of the three fields of each map in the bundle. */
const DIRECT = 5;
const OWN = 8;
const CORRECTION = 11;
const FIELDS = 14;

function between(values: Float32Array, i: number, j: number, u: number): number {
  const left = values[i] as number;
  return left + ((values[j] as number) - left) * u;
}

/** Returns the columns of a bundle row in which the face has a share: the first one, and the one after the last. */
function spanOf(values: Float32Array, width: number): { start: number; end: number } {
  let start = 0;
  let end = width;
  while (start < width && values[start * FIELDS] === 0) start++;
  while (end > start && values[(end - 1) * FIELDS] === 0) end--;
  return { start, end };
}

/** Converts a map into fields that can be averaged; uncovered pixels weigh nothing. */
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
