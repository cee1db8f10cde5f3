import type { Picture } from '@semblance/engine-api/picture';
import type { Face } from '@semblance/vision/face-mesh';
import { FACE_TRIANGLES } from '@semblance/vision/face-topology';
import { linear, luminance, type Rgb, tint } from './colour.ts';
import { cross, type HeadFrame, sub, unit, type Vec } from './head-frame.ts';

/** Mesh points whose triangles are plain skin in nearly every portrait: cheeks, forehead, nose and chin. */
const SKIN = new Set([
  50, 101, 118, 117, 123, 147, 187, 205, 36, 203, 206, 207, 216, 100, 126, 142, 280, 330, 347, 346, 352, 376,
  411, 425, 266, 423, 426, 427, 436, 329, 355, 371, 151, 108, 337, 9, 107, 336, 69, 299, 104, 333, 10, 109,
  338, 67, 297, 195, 5, 4, 51, 281, 45, 275, 3, 248, 199, 200, 208, 428, 175, 171, 396, 201, 421, 192, 416,
  213, 433,
]);
/** Colour of light skin in neutral light, relative to its green. */
const USUAL_SKIN: Rgb = [1.6, 1, 0.76];

/** Light on one face: brightness as a linear function of the normal, by channel (spherical harmonics, order 1). */
export interface Light {
  /** Mean colour of the skin in this light. */
  readonly skin: Rgb;
  /** Colour of a white surface that faces the viewer. */
  readonly white: Rgb;
  /** Direction towards the main light, in units of the head. */
  readonly towards: Vec;
  /** Share of the light that comes from one side: 0 is even. */
  readonly strength: number;
  /** Returns the light on a surface of a normal (in units of the head), relative to the light on the face. */
  on(n: Vec): Rgb;
}

/** Measures the light on a face by the brightness of its skin. */
export function measureLight(picture: Picture, face: Face, head: HeadFrame): Light {
  const points = head.points();
  const samples: { n: Vec; colour: Rgb }[] = [];
  for (let t = 0; t < FACE_TRIANGLES.length; t += 3) {
    const [a, b, c] = [0, 1, 2].map((k) => FACE_TRIANGLES[t + k] as number) as [number, number, number];
    if (!SKIN.has(a) || !SKIN.has(b) || !SKIN.has(c)) continue;
    const n = unit(cross(sub(points[c] as Vec, points[a] as Vec), sub(points[b] as Vec, points[a] as Vec)));
    const facing = head.directionToPicture(n)[2] < 0 ? n : ([-n[0], -n[1], -n[2]] as const);
    const colour = meanColour(picture, face, [a, b, c]);
    if (colour && head.directionToPicture(facing)[2] < -0.25) samples.push({ n: facing, colour });
  }
  const mean = [0, 1, 2].map((k) => median(samples.map(({ colour }) => colour[k] as number)));
  const skin = mean.map((value) => Math.max(0.002, value)) as unknown as Rgb;
  const fits = [0, 1, 2].map((k) => fitLight(samples, k, skin[k] as number));
  const side = (axis: number): number => luminance(fits.map((f) => f[axis] as number));
  const gradient: Vec = [side(1), side(2), side(3)];
  const on = (n: Vec): Rgb =>
    fits.map((f) => {
      const value =
        (f[0] as number) + (f[1] as number) * n[0] + (f[2] as number) * n[1] + (f[3] as number) * n[2];
      return Math.min(1.7, Math.max(0.22, value));
    }) as unknown as Rgb;
  return {
    skin,
    white: whiteOf(picture, face, skin),
    // The camera's side is always lit a little, and light comes from above in most rooms.
    towards: unit([gradient[0], gradient[1] - 0.12, gradient[2] - 0.25]),
    strength: Math.min(1, Math.hypot(...gradient)),
    on,
  };
}

function meanColour(picture: Picture, face: Face, corners: readonly number[]): Rgb | undefined {
  const at = (axis: number): number =>
    corners.reduce((sum, i) => sum + (face.points[i * 3 + axis] as number), 0) / corners.length;
  return colourAround(picture, at(0), at(1), 0.012 * face.width);
}

/** Returns the mean linear colour of a square around a place; undefined outside the picture. */
export function colourAround(picture: Picture, x: number, y: number, radius: number): Rgb | undefined {
  const reach = Math.max(0, Math.round(radius));
  const [cx, cy] = [Math.floor(x), Math.floor(y)];
  const sum = [0, 0, 0];
  let count = 0;
  for (let v = cy - reach; v <= cy + reach; v++) {
    for (let u = cx - reach; u <= cx + reach; u++) {
      if (u < 0 || v < 0 || u >= picture.width || v >= picture.height) continue;
      const i = (v * picture.width + u) * 3;
      for (let c = 0; c < 3; c++) sum[c] = (sum[c] as number) + linear(picture.data[i + c] as number);
      count++;
    }
  }
  return count > 0 ? (sum.map((value) => value / count) as unknown as Rgb) : undefined;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? 0;
}

/**
 * Fits brightness / `usual` to 1, x, y, z of the normal by least squares with a ridge towards a soft light from the
 * front and above, because a face shows few normals.
 */
function fitLight(samples: readonly { n: Vec; colour: Rgb }[], channel: number, usual: number): number[] {
  const prior = [0.62, 0, -0.14, -0.42];
  const rows = prior.map((_, r) => prior.map((_, c) => (r === c ? 0.12 * samples.length : 0)));
  const right = prior.map((value, r) => value * (rows[r]?.[r] as number));
  for (const { n, colour } of samples) {
    const basis = [1, ...n];
    const value = Math.min(2, colour[channel as 0] / usual);
    for (let r = 0; r < 4; r++) {
      right[r] = (right[r] as number) + (basis[r] as number) * value;
      for (let c = 0; c < 4; c++) {
        (rows[r] as number[])[c] = (rows[r]?.[c] as number) + (basis[r] as number) * (basis[c] as number);
      }
    }
  }
  return solve(rows, right);
}

/** Solves a small positive definite system by Gauss-Jordan elimination. */
function solve(rows: number[][], right: number[]): number[] {
  const n = right.length;
  for (let p = 0; p < n; p++) {
    for (let r = 0; r < n; r++) {
      if (r === p) continue;
      const factor = (rows[r]?.[p] as number) / Math.max(1e-9, rows[p]?.[p] as number);
      for (let c = p; c < n; c++) {
        (rows[r] as number[])[c] = (rows[r]?.[c] as number) - factor * (rows[p]?.[c] as number);
      }
      right[r] = (right[r] as number) - factor * (right[p] as number);
    }
  }
  return right.map((value, r) => value / Math.max(1e-9, rows[r]?.[r] as number));
}

/** Guesses the colour of white: the brightest parts around the face, tinted as far as the skin is. */
function whiteOf(picture: Picture, face: Face, skin: Rgb): Rgb {
  const lights: number[] = [];
  const [cx, cy] = [face.points[12] as number, face.points[13] as number];
  for (let v = -1.2; v <= 1.4; v += 0.05) {
    for (let u = -1.1; u <= 1.1; u += 0.05) {
      const c = colourAround(picture, cx + u * face.width, cy + v * face.width, 0);
      if (c) lights.push(luminance(c));
    }
  }
  lights.sort((a, b) => a - b);
  const bright = lights[Math.floor(0.96 * lights.length)] ?? 1;
  const amount = Math.min(0.8, Math.max(1.35 * luminance(skin), 0.9 * bright));
  const cast = ([0, 1, 2] as const).map((c) => {
    const ratio = skin[c] / Math.max(1e-4, skin[1]) / USUAL_SKIN[c];
    return Math.min(2.5, Math.max(0.3, ratio)) ** 0.35;
  }) as unknown as Rgb;
  return tint(cast, amount / luminance(cast));
}
