import { evenRect, type Rect } from '../../../media/yuv.ts';
import { withScratch } from '../swap/scratch.ts';
import { mixShape } from '../swap/shape.ts';
import { flatten } from '../swap/source-face.ts';
import { drawTriangles, emptyMap, MOUTH_TRIANGLES } from '../swap/warp-map.ts';
import { POINTS } from '../vision/face-mesh.ts';
import { FACE_OVAL } from '../vision/face-regions.ts';
import { type Before, copyOf, fineTexture, sumRows } from './before.ts';
import { blendTextures } from './blend.ts';
import { drawMouth, mouthShown } from './draw-mouth.ts';
import type { Colors, Frame } from './frame-part.ts';
import { PlaceRow, spanAt, spansOf } from './grid-map.ts';
import { skinLevel } from './skin-level.ts';
import type { FaceTexture } from './texture.ts';

/** One swap of one frame. */
export interface FaceDrawing {
  readonly points: Float32Array;
  /** Distance between the sides of the face, pixels. */
  readonly width: number;
  readonly opacity: number;
  /** The textures of the analysed frames before and after, of one size, and how far the frame is from one to the other. */
  readonly from: FaceTexture;
  readonly to: FaceTexture;
  readonly share: number;
}

/** Width of a face on the grid on which meshes are drawn. */
const GRID_WIDTH = 100;
/** How far the light on one frame may be from what its neighbours say. */
const GAIN_LIMITS = [0.7, 1.4] as const;
/** Draws one swap into a frame; bytes in which it has no share are not written. */
export function drawFace(frame: Frame, drawing: FaceDrawing, color: Colors): void {
  withScratch(() => {
    const rect = boxOf(frame, drawing);
    if (rect.width < 8 || rect.height < 8) return;
    const scale = Math.max(1, drawing.width / GRID_WIDTH);
    const grid = { width: Math.ceil(rect.width / scale) + 1, height: Math.ceil(rect.height / scale) + 1 };
    const points = new Float32Array(POINTS * 3);
    for (let i = 0; i < points.length; i += 3) {
      points[i] = ((drawing.points[i] as number) - rect.x) / scale;
      points[i + 1] = ((drawing.points[i + 1] as number) - rect.y) / scale;
      points[i + 2] = (drawing.points[i + 2] as number) / scale;
    }
    const { from } = drawing;
    const faceWidth = drawing.width / scale;
    const mixed = mixShape(points, from.points, 1, faceWidth);
    const depth = Float32Array.from({ length: POINTS }, (_, i) => points[i * 3 + 2] as number);
    const map = emptyMap(grid.width, grid.height);
    const geometry = { to: mixed, from: flatten(from.points), depth };
    drawTriangles(map, geometry);
    // Where the mouth opens the texture has no share; without a hole nothing is read across its edge.
    drawTriangles(map, geometry, MOUTH_TRIANGLES);
    const spans = spansOf(map);
    const texture = blendTextures(from, drawing.to, drawing.share);
    const before = copyOf(frame, rect);
    const black = color.range === 'pc' ? 0 : 16;
    // A patch is 1.6 times as wide as its face; three times the usual distance is a fold.
    const most = (3 * from.size) / 1.6 / faceWidth;
    const places = new PlaceRow(map, most);
    const layer = {
      ...{ frame, before, texture, places, most, spans, scale, black },
      opacity: drawing.opacity,
      gain: gainOf(frame, drawing, black),
      size: from.size,
      grain: from.grain + (drawing.to.grain - from.grain) * drawing.share,
    };
    drawLuma(layer);
    drawChroma(layer);
    drawMouth(layer, { points, mixed, depth, grid, faceWidth, shown: mouthShown(drawing) });
  });
}

interface Layer {
  readonly frame: Frame;
  readonly before: Before;
  readonly texture: Pick<FaceTexture, 'luma' | 'chroma'>;
  readonly places: PlaceRow;
  /** Distance of two neighbours that still belong together. */
  readonly most: number;
  /** First column of the mesh and the one after the last, for each row of the grid. */
  readonly spans: Int32Array;
  readonly scale: number;
  readonly black: number;
  readonly opacity: number;
  readonly gain: number;
  readonly size: number;
  readonly grain: number;
}

function drawLuma(layer: Layer): void {
  const { frame, before, texture, places, most, spans, scale, black, opacity, gain, size, grain } = layer;
  const { luma } = texture;
  const { data } = frame;
  const { values } = places;
  const columns = values.length / 2;
  const by = 1 / scale;
  const last = size - 1.001;
  const share = opacity / 255;
  // What is added for each share of black when the rest is made brighter or darker.
  const lift = black * (1 - gain);
  const sums = grain > 0 ? new Int32Array(before.width) : undefined;
  for (let y = 0; y < before.height; y++) {
    const { start, end } = spanAt(spans, (y + 0.5) * by);
    if (end <= start) continue;
    places.moveTo((y + 0.5) * by);
    if (sums) sumRows(before, y, sums);
    const out = (before.y + y) * frame.width + before.x;
    const stop = Math.min(before.width, Math.ceil(end * scale));
    for (let x = Math.max(0, Math.floor(start * scale)); x < stop; x++) {
      const place = (x + 0.5) * by - 0.5;
      const gx = place < 0 ? 0 : place > columns - 1.001 ? columns - 1.001 : place;
      const x0 = gx | 0;
      const i = x0 * 2;
      const left = values[i] as number;
      const above = values[i + 1] as number;
      const dx = (values[i + 2] as number) - left;
      if (Number.isNaN(dx)) continue;
      const dy = (values[i + 3] as number) - above;
      let u = gx - x0;
      if (dx > most || dx < -most || dy > most || dy < -most) u = u < 0.5 ? 0 : 1;
      const px = left + dx * u - 0.5;
      const py = above + dy * u - 0.5;
      const tx = px < 0 ? 0 : px > last ? last : px;
      const ty = py < 0 ? 0 : py > last ? last : py;
      const cx = tx | 0;
      const cy = ty | 0;
      const fx = tx - cx;
      const fy = ty - cy;
      const a = (cy * size + cx) * 2;
      const c = a + size * 2;
      const w11 = fx * fy;
      const w01 = fx - w11;
      const w10 = fy - w11;
      const w00 = 1 - w01 - fy;
      const total =
        w00 * (luma[a + 1] as number) +
        w01 * (luma[a + 3] as number) +
        w10 * (luma[c + 1] as number) +
        w11 * (luma[c + 3] as number);
      if (total < 0.5) continue;
      const there =
        w00 * (luma[a] as number) +
        w01 * (luma[a + 2] as number) +
        w10 * (luma[c] as number) +
        w11 * (luma[c + 2] as number);
      const part = total * share;
      let fresh = there * gain * opacity + lift * part;
      if (sums) fresh += grain * part * fineTexture(before, sums, x, y);
      const value = (data[out + x] as number) * (1 - part) + fresh;
      data[out + x] = value <= 0 ? 0 : value >= 255 ? 255 : value + 0.5;
    }
  }
}

function drawChroma({
  frame,
  before,
  texture,
  places,
  most,
  spans,
  scale,
  opacity,
  gain,
  size,
}: Layer): void {
  const { chroma } = texture;
  const { data } = frame;
  const { values } = places;
  const columns = values.length / 2;
  const by = 2 / scale;
  const half = size >> 1;
  const last = half - 1.001;
  const share = opacity / 255;
  const stride = frame.width >> 1;
  const uAt = frame.width * frame.height;
  const vAt = uAt + uAt / 4;
  for (let y = 0; y < before.height >> 1; y++) {
    const { start, end } = spanAt(spans, (y + 0.5) * by);
    if (end <= start) continue;
    places.moveTo((y + 0.5) * by);
    const out = ((before.y >> 1) + y) * stride + (before.x >> 1);
    const stop = Math.min(before.width >> 1, Math.ceil(end / by));
    for (let x = Math.max(0, Math.floor(start / by)); x < stop; x++) {
      const place = (x + 0.5) * by - 0.5;
      const gx = place < 0 ? 0 : place > columns - 1.001 ? columns - 1.001 : place;
      const x0 = gx | 0;
      const i = x0 * 2;
      const left = values[i] as number;
      const above = values[i + 1] as number;
      const dx = (values[i + 2] as number) - left;
      if (Number.isNaN(dx)) continue;
      const dy = (values[i + 3] as number) - above;
      let u = gx - x0;
      if (dx > most || dx < -most || dy > most || dy < -most) u = u < 0.5 ? 0 : 1;
      const px = (left + dx * u) / 2 - 0.5;
      const py = (above + dy * u) / 2 - 0.5;
      const tx = px < 0 ? 0 : px > last ? last : px;
      const ty = py < 0 ? 0 : py > last ? last : py;
      const cx = tx | 0;
      const cy = ty | 0;
      const fx = tx - cx;
      const fy = ty - cy;
      const a = (cy * half + cx) * 3;
      const c = a + half * 3;
      const w11 = fx * fy;
      const w01 = fx - w11;
      const w10 = fy - w11;
      const w00 = 1 - w01 - fy;
      const total =
        w00 * (chroma[a + 2] as number) +
        w01 * (chroma[a + 5] as number) +
        w10 * (chroma[c + 2] as number) +
        w11 * (chroma[c + 5] as number);
      if (total < 0.5) continue;
      const part = total * share;
      for (let k = 0; k < 2; k++) {
        const there =
          w00 * (chroma[a + k] as number) +
          w01 * (chroma[a + 3 + k] as number) +
          w10 * (chroma[c + k] as number) +
          w11 * (chroma[c + 3 + k] as number) -
          128;
        const at = (k === 0 ? uAt : vAt) + out + x;
        const value = 128 + ((data[at] as number) - 128) * (1 - part) + there * gain * opacity;
        data[at] = value <= 0 ? 0 : value >= 255 ? 255 : value + 0.5;
      }
    }
  }
}

/** What a frame's light is to that of its analysed neighbours: a flash or a lamp that flickers changes it at once. */
function gainOf(frame: Frame, { points, from, to, share }: FaceDrawing, black: number): number {
  const usual = from.level + (to.level - from.level) * share - black;
  const now = skinLevel(frame, points) - black;
  if (usual < 8 || now < 8) return 1;
  return Math.min(GAIN_LIMITS[1], Math.max(GAIN_LIMITS[0], now / usual));
}

function boxOf(frame: Frame, { points, width }: FaceDrawing): Rect {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const index of FACE_OVAL) {
    left = Math.min(left, points[index * 3] as number);
    right = Math.max(right, points[index * 3] as number);
    top = Math.min(top, points[index * 3 + 1] as number);
    bottom = Math.max(bottom, points[index * 3 + 1] as number);
  }
  const margin = 0.04 * width;
  const x = left - margin;
  const y = top - margin;
  return evenRect({ x, y, width: right + margin - x, height: bottom + margin - y }, frame);
}
