import { evenRect, type Rect } from '@semblance/media/yuv';
import { faceFromPoints, POINTS } from '@semblance/vision/face-mesh';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import { withScratch } from '@semblance/vision/plane/scratch';
import { drawTriangles, emptyMap, MOUTH_TRIANGLES, type WarpMap } from '@semblance/vision/plane/warp-map';
import { withLipEdge } from '../swap/lip-edge.ts';
import { insideJaw, jawBox, moveJaw } from '../swap/move-jaw.ts';
import { mixShape } from '../swap/shape.ts';
import { eachFeature, type ShownFeatures } from '../swap/shown-features.ts';
import { flatten } from '../swap/source-face.ts';
import { gazeShift, turnEyes } from '../swap/turn-eyes.ts';
import { coloursBefore, copyOf } from './before.ts';
import { drawEyes, drawMouth, mouthShown } from './draw-own.ts';
import { drawChroma, drawLuma } from './draw-rows.ts';
import type { FaceDrawing } from './face-drawing.ts';
import type { Colors, Frame } from './frame-part.ts';
import { ownShift, PlaceRow, spansOf } from './grid-map.ts';
import { skinLevel } from './skin-level.ts';
import { ALPHA_STEP, blendTextures, type TextureData } from './texture-data.ts';

/** Face width on the grid on which meshes are drawn. */
const GRID_WIDTH = 100;
/** Limits of the light of one frame relative to its neighbours; a swap does not follow further. */
export const GAIN_LIMITS = [0.7, 1.4] as const;

/** Draws one swap into a frame. Bytes without a share are not written. */
export function drawFace(frame: Frame, drawing: FaceDrawing, color: Colors): void {
  withScratch(() => {
    const rect = boxOf(frame, drawing);
    if (rect.width < 8 || rect.height < 8) return;
    const scale = Math.max(1, drawing.width / GRID_WIDTH);
    const grid = { width: Math.ceil(rect.width / scale) + 1, height: Math.ceil(rect.height / scale) + 1 };
    const placed = new Float32Array(POINTS * 3);
    for (let i = 0; i < placed.length; i += 3) {
      placed[i] = ((drawing.points[i] as number) - rect.x) / scale;
      placed[i + 1] = ((drawing.points[i + 1] as number) - rect.y) / scale;
      placed[i + 2] = (drawing.points[i + 2] as number) / scale;
    }
    const { from } = drawing;
    const faceWidth = drawing.width / scale;
    const before = copyOf(frame, rect);
    const points = withLipEdge(placed, faceWidth, coloursBefore(before, scale));
    const mixed = mixShape(points, from.points, faceWidth, shownIn(drawing));
    const depth = Float32Array.from({ length: POINTS }, (_, i) => points[i * 3 + 2] as number);
    const map = emptyMap(grid.width, grid.height);
    const geometry = { to: mixed, from: flatten(from.points), depth };
    drawTriangles(map, geometry);
    // The texture has no share where the mouth opens. Without a hole nothing is interpolated across its edge.
    drawTriangles(map, geometry, MOUTH_TRIANGLES);
    turnEyes(map, mixed, gazeShift(from.gaze, drawing.gaze), drawing.gaze.aside);
    const own = emptyMap(grid.width, grid.height);
    const moved = { to: mixed, from: flatten(points), depth };
    drawTriangles(own, moved);
    drawTriangles(own, moved, MOUTH_TRIANGLES);
    const spans = spansOf(map);
    const texture = blendTextures(from, drawing.to, drawing.share);
    const black = color.range === 'pc' ? 0 : 16;
    // A patch is 1.6 times as wide as its face; three times the usual distance is a fold.
    const most = (3 * from.size) / 1.6 / faceWidth;
    const places = new PlaceRow(map, most);
    const layer = {
      frame,
      before,
      texture,
      places,
      shift: ownShift(own, scale, before, (i) => drawing.opacity * shareAt(texture, from.size, map, i)),
      most,
      spans,
      scale,
      black,
      opacity: drawing.opacity,
      gain: gainOf(frame, drawing, black),
      size: from.size,
      grain: {
        share: from.grain.share + (drawing.to.grain.share - from.grain.share) * drawing.share,
        limit: from.grain.limit + (drawing.to.grain.limit - from.grain.limit) * drawing.share,
      },
    };
    drawLuma(layer);
    drawChroma(layer);
    const drawn = { points, mixed, depth, grid, faceWidth };
    drawMouth(layer, drawn, mouthShown(drawing));
    const [right, left] = drawing.closed;
    drawEyes(layer, drawn, [Math.max(right, drawing.ownEyes), Math.max(left, drawing.ownEyes)]);
    takeJaw(frame, drawing, (x, y) => {
      const column = Math.min(grid.width - 1, Math.max(0, Math.round((x - rect.x) / scale)));
      const row = Math.min(grid.height - 1, Math.max(0, Math.round((y - rect.y) / scale)));
      return shareAt(texture, from.size, map, row * grid.width + column);
    });
  });
}

/**
 * Gives the jaw the source's proportions, except where something covers it.
 * @param shareAt share of the swap at a place of the frame
 */
function takeJaw(frame: Frame, drawing: FaceDrawing, shareAt: (x: number, y: number) => number): void {
  const { width, height, data } = frame;
  const face = faceFromPoints(drawing.points, 1);
  const share = drawing.opacity * shownIn(drawing).mouth;
  const luma = width * height;
  const half = { data, width: width >> 1, height: height >> 1, channels: 1, pixels: 2, reads: 4 } as const;
  moveJaw(
    [
      { data, start: 0, width, height, channels: 1, pixels: 1, reads: 8 },
      { ...half, start: luma },
      { ...half, start: luma + luma / 4 },
    ],
    face,
    frame,
    drawing.jaw,
    (n) => {
      const { x, y } = insideJaw(face, n);
      return share * shareAt(x, y);
    },
  );
}

/** Returns the share of the source in each feature's shape, between the analysed frames before and after. */
function shownIn({ from, to, share }: FaceDrawing): ShownFeatures {
  const mix = (of: keyof ShownFeatures): number => from.shape[of] * (1 - share) + to.shape[of] * share;
  return eachFeature(mix);
}

/** Returns the share of the swap at a node of the grid. */
function shareAt({ alpha }: TextureData, size: number, { x, y, covered }: WarpMap, node: number): number {
  if (!covered.data[node]) return 0;
  const side = Math.ceil(size / ALPHA_STEP);
  const column = Math.min(side - 1, Math.max(0, Math.round((x.data[node] as number) / ALPHA_STEP)));
  const row = Math.min(side - 1, Math.max(0, Math.round((y.data[node] as number) / ALPHA_STEP)));
  return alpha[row * side + column] as number;
}

/**
 * Returns the light of a frame relative to its analysed neighbours: a flash or a flickering lamp changes it at
 * once.
 */
function gainOf(frame: Frame, { points, from, to, share }: FaceDrawing, black: number): number {
  const usual = from.level + (to.level - from.level) * share - black;
  const now = skinLevel(frame, points) - black;
  if (usual < 8 || now < 8) return 1;
  return Math.min(GAIN_LIMITS[1], Math.max(GAIN_LIMITS[0], now / usual));
}

/** Returns the part of the frame that a drawing may change. */
export function changedBox(frame: Frame, face: Pick<FaceDrawing, 'points' | 'width'>): Rect {
  const [inner, outer] = [boxOf(frame, face), evenRect(jawBox(face), frame)];
  const x = Math.min(inner.x, outer.x);
  const y = Math.min(inner.y, outer.y);
  const width = Math.max(inner.x + inner.width, outer.x + outer.width) - x;
  return { x, y, width, height: Math.max(inner.y + inner.height, outer.y + outer.height) - y };
}

/** Returns the part of the frame in which the new face is drawn. */
function boxOf(frame: Frame, { points, width }: Pick<FaceDrawing, 'points' | 'width'>): Rect {
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
