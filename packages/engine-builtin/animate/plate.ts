import type { Picture } from '@semblance/engine-api/picture';
import { type CropTransform, cropRgb } from '@semblance/vision/picture';
import { pushPull } from '@semblance/vision/plane/fill';
import { blur, grow, type Plane, plane, sample, smoothstep } from '@semblance/vision/plane/plane';
import type { FaceFrame } from './face-frame.ts';
import { type HeadShape, headShape } from './head-shape.ts';
import { personMatte } from './matte.ts';
import { scanTriangles } from './raster.ts';
import { type Reflection, reflect } from './reflect.ts';

/** Eye distance, in pixels, at which head and background are separated. */
const WORK_IOD = 28;
/**
 * Distances from the edge of the head, in IOD: background that moves with the head, background that is made up, and
 * background that is copied.
 */
const CARRIED = 0.13;
const PLATE = 0.07;
const SOURCE = 0.22;
/** Distance behind that edge, in IOD, up to which the background's mirror image is used, and from which it is not. */
const REFLECTED = [0.7, 1.3] as const;

/** The background behind a head, and the moving part of the picture. */
export interface Layers {
  readonly shape: HeadShape;
  /** Part of the picture that can change; even. */
  readonly box: {
    readonly left: number;
    readonly top: number;
    readonly right: number;
    readonly bottom: number;
  };
  /** Red, green, blue of the background without the person, over the box. */
  readonly background: Uint8Array;
  /** Opacity of the moving layer, 0–255, over the box. */
  readonly alpha: Uint8Array;
}

/** Separates the person from the background, and continues the background behind the head. */
export function separate(picture: Picture, points: Float32Array, frame: FaceFrame): Layers {
  const { iod, origin } = frame;
  const left = Math.max(0, Math.floor(origin[0] - 4.2 * iod) & ~1);
  const top = Math.max(0, Math.floor(origin[1] - 4.2 * iod) & ~1);
  const right = Math.min(picture.width, (Math.ceil(origin[0] + 4.2 * iod) + 1) & ~1);
  const bottom = Math.min(picture.height, (Math.ceil(origin[1] + 4.6 * iod) + 1) & ~1);
  const box = { left, top, right, bottom };
  const scale = iod / WORK_IOD;
  const crop: CropTransform = { scale, angle: 0, originX: left, originY: top };
  const width = Math.ceil((right - left) / scale);
  const height = Math.ceil((bottom - top) / scale);
  const image = cropRgb(picture, crop, width, height);
  const small = new Float32Array(points.length);
  for (let i = 0; i < points.length; i += 3) {
    small[i] = ((points[i] as number) - left) / scale;
    small[i + 1] = ((points[i + 1] as number) - top) / scale;
    small[i + 2] = (points[i + 2] as number) / scale;
  }
  const smallFrame: FaceFrame = {
    axes: frame.axes,
    iod: WORK_IOD,
    origin: [(origin[0] - left) / scale, (origin[1] - top) / scale, origin[2] / scale],
  };
  const matte = personMatte(image, { points: small, frame: smallFrame });
  const chin = (small[152 * 3 + 1] as number) | 0;
  const cut = {
    left: left === 0 && touches(matte, 0, 1, 0, chin) ? 0 : -1e9,
    right: right === picture.width && touches(matte, width - 1, width, 0, chin) ? picture.width : 1e9,
    top: top === 0 && touches(matte, 0, width, 0, 1) ? 0 : -1e9,
  };
  const shape = headShape(points, frame, cut);
  const follow = followPlane(shape, crop, width, height);
  // A little background moves with the head, so that an edge found too far inside cuts nothing off, and so that the
  // still head hides everything that is made up.
  const edge = threshold(matte, 0.15);
  const wide = blur(grow(edge, CARRIED * WORK_IOD), 0.045 * WORK_IOD);
  const hidden = blur(grow(edge, PLATE * WORK_IOD), 0.03 * WORK_IOD);
  const alpha = plane(width, height);
  for (let i = 0; i < alpha.data.length; i++) {
    const own = smoothstep(0.02, 0.7, wide.data[i] as number);
    const still = 1 - smoothstep(0.01, 0.22, follow.data[i] as number);
    alpha.data[i] = own + (1 - own) * still;
  }
  // The source of the continued background keeps away from single hairs.
  const near = grow(edge, SOURCE * WORK_IOD);
  const seen = plane(width, height);
  for (let i = 0; i < seen.data.length; i++) {
    const far = (near.data[i] as number) < 0.5;
    seen.data[i] = far ? 1 : (hidden.data[i] as number) < 0.02 ? 0.03 : 0;
  }
  const filled = pushPull(image, seen);
  const reflection = reflect(blur(near, 0.05 * WORK_IOD), [REFLECTED[0] * WORK_IOD, REFLECTED[1] * WORK_IOD]);
  const fields = { filled, reflection, hidden: moving(hidden, follow), alpha };
  return { shape, box, ...enlarge(picture, box, crop, fields) };
}

/** Background where nothing moves is never uncovered. */
function moving(hidden: Plane, follow: Plane): Plane {
  const out = plane(hidden.width, hidden.height);
  for (let i = 0; i < out.data.length; i++) {
    out.data[i] = (hidden.data[i] as number) * smoothstep(0, 0.02, follow.data[i] as number);
  }
  return out;
}

function touches(matte: Plane, x0: number, x1: number, y0: number, y1: number): boolean {
  let sum = 0;
  for (let y = y0; y < Math.min(matte.height, y1); y++) {
    for (let x = x0; x < x1; x++) sum += matte.data[y * matte.width + x] as number;
  }
  return sum > 0.25 * WORK_IOD;
}

function threshold(source: Plane, least: number): Plane {
  const out = plane(source.width, source.height);
  for (let i = 0; i < out.data.length; i++) out.data[i] = (source.data[i] as number) >= least ? 1 : 0;
  return out;
}

/** Returns how far each place follows the head. */
function followPlane(shape: HeadShape, crop: CropTransform, width: number, height: number): Plane {
  const count = shape.follow.length;
  const to = new Float32Array(count * 2);
  const from = new Float32Array(count * 2);
  for (let v = 0; v < count; v++) {
    to[v * 2] = ((shape.texture[v * 2] as number) - crop.originX) / crop.scale;
    to[v * 2 + 1] = ((shape.texture[v * 2 + 1] as number) - crop.originY) / crop.scale;
    from[v * 2] = shape.follow[v] as number;
  }
  const out = plane(width, height);
  for (const triangles of [shape.surround, shape.skin, shape.eyes]) {
    scanTriangles(out, { to, from, triangles, scale: 1 }, (y, x0, x1, value, _, step) => {
      for (let x = x0, f = value; x < x1; x++, f += step) out.data[y * width + x] = f;
    });
  }
  return out;
}

function enlarge(
  picture: Picture,
  box: Layers['box'],
  crop: CropTransform,
  fields: {
    filled: { width: number; height: number; data: Float32Array };
    reflection: Reflection;
    hidden: Plane;
    alpha: Plane;
  },
): { background: Uint8Array; alpha: Uint8Array } {
  const width = box.right - box.left;
  const height = box.bottom - box.top;
  const background = new Uint8ClampedArray(width * height * 3);
  const alpha = new Uint8ClampedArray(width * height);
  const { filled, hidden, reflection } = fields;
  const split = [0, 1, 2].map((c) => {
    const out = plane(filled.width, filled.height);
    for (let i = 0; i < out.data.length; i++) out.data[i] = filled.data[i * 3 + c] as number;
    return out;
  });
  /** Returns the place in the picture that the reflection shows at a place of the box. */
  const sourceOf = (x: number, y: number, u: number, v: number): number => {
    const sx = box.left + x + Math.round(sample(reflection.x, u, v) * crop.scale);
    const sy = box.top + y + Math.round(sample(reflection.y, u, v) * crop.scale);
    const px = Math.min(picture.width - 1, Math.max(0, sx));
    const py = Math.min(picture.height - 1, Math.max(0, sy));
    return (py * picture.width + px) * picture.channels;
  };
  const grain = grainOf(picture, box, (x, y) => sample(hidden, x / crop.scale, y / crop.scale) < 0.01);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const u = (x + 0.5) / crop.scale;
      const v = (y + 0.5) / crop.scale;
      const i = y * width + x;
      alpha[i] = 255 * sample(fields.alpha, u, v);
      const share = smoothstep(0, 0.6, sample(hidden, u, v));
      const p = ((box.top + y) * picture.width + box.left + x) * picture.channels;
      const mirrored = share > 0 ? sample(reflection.share, u, v) : 0;
      const noise = share > 0 ? grain * roughness(x, y) : 0;
      const from = share > 0 ? sourceOf(x, y, u, v) : 0;
      for (let c = 0; c < 3; c++) {
        const seen = picture.data[p + c] as number;
        let made = share > 0 ? sample(split[c] as Plane, u, v) + noise : 0;
        made += ((picture.data[from + c] as number) - made) * mirrored;
        background[i * 3 + c] = seen + (made - seen) * share;
      }
    }
  }
  return {
    background: new Uint8Array(background.buffer),
    alpha: new Uint8Array(alpha.buffer),
  };
}

/**
 * Returns the typical difference of a background pixel from its neighbours, in levels; made-up background gets the
 * same grain.
 */
function grainOf(picture: Picture, box: Layers['box'], isSeen: (x: number, y: number) => boolean): number {
  const { width, channels, data } = picture;
  const differences: number[] = [];
  const step = Math.max(3, Math.round((box.right - box.left) / 80));
  for (let y = box.top + 1; y < box.bottom - 1; y += step) {
    for (let x = box.left + 1; x < box.right - 1; x += step) {
      if (!isSeen(x - box.left, y - box.top)) continue;
      const at = (dx: number, dy: number): number =>
        data[((y + dy) * width + x + dx) * channels + 1] as number;
      differences.push(Math.abs(at(0, 0) - (at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1)) / 4));
    }
  }
  // The median, because edges are not grain.
  differences.sort((a, b) => a - b);
  return 1.3 * (differences[differences.length >> 1] ?? 0);
}

/** Returns noise that is the same in every frame and run, about normal with deviation 1. */
function roughness(x: number, y: number): number {
  let sum = 0;
  let h = (x * 374_761_393 + y * 668_265_263) | 0;
  for (let k = 0; k < 3; k++) {
    h = Math.imul(h ^ (h >>> 13), 1_274_126_177);
    sum += ((h >>> 8) & 0xffff) / 0xffff - 0.5;
  }
  return sum * 2;
}
