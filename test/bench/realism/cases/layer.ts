import type { Picture } from '@semblance/engine-api/picture';
import type { Face } from '@semblance/vision/face-mesh';
import { type Plane, plane } from '@semblance/vision/plane/plane';
import type { Rgb } from './colour.ts';
import type { HeadFrame, Vec } from './head-frame.ts';

/** Grid of samples over the part of a picture around a face, finer than a small picture, coarser than a large one. */
export interface Grid {
  readonly left: number;
  readonly top: number;
  /** Picture pixels per sample. */
  readonly step: number;
  readonly width: number;
  readonly height: number;
}

/** Object drawn on a grid. */
export interface Layer {
  readonly grid: Grid;
  /** Linear light, three values to a sample, multiplied by the coverage. */
  readonly light: Float32Array;
  /** Share of each sample that the object covers. */
  readonly alpha: Float32Array;
  /** Distance of the object in front of the face, in face widths; it places the shadow. */
  gap: number;
  /** Share of the light that its shadow takes away; 0 draws none. */
  shade: number;
}

/** Face width in samples, at most and at least. */
const FINEST = 420;
const COARSEST = 300;

/** Returns the grid that reaches 1.9 face widths around the middle of the face, as far as the picture does. */
export function gridOf(picture: Picture, face: Face, head: HeadFrame): Grid {
  const [cx, cy] = head.toPicture([0, 0.45, 0]);
  const reach = 1.9 * face.width;
  const left = Math.max(0, Math.floor(cx - reach));
  const top = Math.max(0, Math.floor(cy - reach));
  const right = Math.min(picture.width, Math.ceil(cx + reach));
  const bottom = Math.min(picture.height, Math.ceil(cy + reach));
  const finer = Math.min(4, Math.max(1, Math.round(COARSEST / face.width)));
  const step = face.width > FINEST ? face.width / FINEST : 1 / finer;
  const samples = (length: number): number => Math.max(1, Math.ceil(length / step));
  return { left, top, step, width: samples(right - left), height: samples(bottom - top) };
}

export function emptyLayer(grid: Grid): Layer {
  const count = grid.width * grid.height;
  return { grid, light: new Float32Array(count * 3), alpha: new Float32Array(count), gap: 0.05, shade: 0.45 };
}

/** Returns the place of a sample in the picture. */
export function samplePlace(grid: Grid, x: number, y: number): [number, number] {
  return [grid.left + (x + 0.5) * grid.step, grid.top + (y + 0.5) * grid.step];
}

/** Returns the place of a point of the head on the grid, with its depth in picture pixels. */
export function onGrid(grid: Grid, head: HeadFrame, point: Vec): [x: number, y: number, z: number] {
  const [x, y, z] = head.toPicture(point);
  return [(x - grid.left) / grid.step, (y - grid.top) / grid.step, z];
}

/** Puts one more colour over a sample of a layer. */
export function cover(layer: Layer, i: number, colour: Rgb, alpha: number): void {
  if (alpha <= 0) return;
  const a = Math.min(1, alpha);
  for (let c = 0; c < 3; c++) {
    layer.light[i * 3 + c] = (layer.light[i * 3 + c] as number) * (1 - a) + Math.max(0, colour[c as 0]) * a;
  }
  layer.alpha[i] = (layer.alpha[i] as number) * (1 - a) + a;
}

/** Puts a layer over another of the same grid. */
export function stack(below: Layer, above: Layer): void {
  for (let i = 0; i < below.alpha.length; i++) {
    const a = above.alpha[i] as number;
    if (a === 0) continue;
    for (let c = 0; c < 3; c++) {
      below.light[i * 3 + c] =
        (below.light[i * 3 + c] as number) * (1 - a) + (above.light[i * 3 + c] as number);
    }
    below.alpha[i] = (below.alpha[i] as number) * (1 - a) + a;
  }
}

/** Returns a field of the grid at the size of the picture: averaged where the grid is finer, else interpolated. */
export function toPictureSize(
  grid: Grid,
  field: ArrayLike<number>,
  stride: number,
  at: number,
  picture: Picture,
): Plane {
  const out = plane(picture.width, picture.height);
  const taps = Math.max(1, Math.round(1 / grid.step));
  const value = (x: number, y: number): number => {
    const u = Math.min(grid.width - 1, Math.max(0, x));
    const v = Math.min(grid.height - 1, Math.max(0, y));
    return field[(v * grid.width + u) * stride + at] as number;
  };
  const right = Math.min(picture.width, Math.ceil(grid.left + grid.width * grid.step));
  const bottom = Math.min(picture.height, Math.ceil(grid.top + grid.height * grid.step));
  for (let y = grid.top; y < bottom; y++) {
    for (let x = grid.left; x < right; x++) {
      let sum = 0;
      if (grid.step <= 1) {
        for (let v = 0; v < taps; v++) {
          for (let u = 0; u < taps; u++) sum += value((x - grid.left) * taps + u, (y - grid.top) * taps + v);
        }
        sum /= taps * taps;
      } else {
        const [px, py] = [(x + 0.5 - grid.left) / grid.step - 0.5, (y + 0.5 - grid.top) / grid.step - 0.5];
        const [x0, y0] = [Math.floor(px), Math.floor(py)];
        const [u, v] = [px - x0, py - y0];
        const above = value(x0, y0) * (1 - u) + value(x0 + 1, y0) * u;
        sum = above * (1 - v) + (value(x0, y0 + 1) * (1 - u) + value(x0 + 1, y0 + 1) * u) * v;
      }
      out.data[y * picture.width + x] = sum;
    }
  }
  return out;
}
