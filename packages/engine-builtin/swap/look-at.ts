import type { Picture } from '@semblance/engine-api/picture';
import { showsFrame } from '@semblance/vision/face-cover';
import { type Face, POINTS } from '@semblance/vision/face-mesh';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import { cropRgb, type RgbImage } from '@semblance/vision/picture';
import { grow, type Plane } from '@semblance/vision/plane/plane';
import { type FaceZones, faceZones } from './face-zones.ts';
import { coloursOf, withLipEdge } from './lip-edge.ts';
import { flatten } from './source-face.ts';
import { frontOf, type TargetCover, targetCover, type WorkGrid } from './target-cover.ts';

/** Face width on the work grid, in pixels. Larger faces are analysed at this width and composed at their own. */
const WORK_WIDTH = 120;
/** Least distance of the rim of glasses from the opening of an eye, as a share of the face width. */
const RIM_APART = 0.05;

/** A target on its work grid. */
export interface Looked extends TargetCover {
  readonly grid: WorkGrid;
  /** In pixels of the grid. */
  readonly faceWidth: number;
  readonly target: RgbImage;
  /** Mesh in pixels of the grid, stride 3, and without depth, stride 2. */
  readonly points: Float32Array;
  readonly flat: Float32Array;
}

/** Returns what a plan needs to know of the target, whatever is taken of the source. @param cover as of `swapFace` */
export function lookAt(picture: Picture, face: Face, cover: Plane | undefined): Looked {
  const grid = workGrid(picture, face);
  const { scale, width, height } = grid;
  const faceWidth = face.width / scale;
  const target = cropRgb(picture, { ...grid, angle: 0 }, width, height);
  const placed = new Float32Array(POINTS * 3);
  for (let i = 0; i < POINTS; i++) {
    placed[i * 3] = ((face.points[i * 3] as number) - grid.originX) / scale;
    placed[i * 3 + 1] = ((face.points[i * 3 + 1] as number) - grid.originY) / scale;
    placed[i * 3 + 2] = (face.points[i * 3 + 2] as number) / scale;
  }
  const points = withLipEdge(placed, faceWidth, coloursOf(target));
  const flat = flatten(points);
  const zones = faceZones(flat, { width, height }, faceWidth);
  const frame = cover && showsFrame(cover, face);
  const found = cover && frontOf(cover, face, grid, frame ? rimsOf(zones, faceWidth) : undefined);
  const inFront = targetCover(target, zones, faceWidth, found, frame);
  return { grid, faceWidth, target, points, flat, ...inFront };
}

/** Returns 1 where the frame of glasses may be: around the lenses, not before the eyes. */
function rimsOf({ glasses, eyeOpenings }: FaceZones, faceWidth: number): Plane {
  const eyes = grow(eyeOpenings, RIM_APART * faceWidth);
  return { ...glasses, data: glasses.data.map((share, i) => (eyes.data[i] ? 0 : share)) };
}

function workGrid(picture: Picture, face: Face): WorkGrid {
  let left = Infinity;
  let right = -Infinity;
  let top = Infinity;
  let bottom = -Infinity;
  for (const index of FACE_OVAL) {
    left = Math.min(left, face.points[index * 3] as number);
    right = Math.max(right, face.points[index * 3] as number);
    top = Math.min(top, face.points[index * 3 + 1] as number);
    bottom = Math.max(bottom, face.points[index * 3 + 1] as number);
  }
  const margin = 0.06 * face.width;
  const originX = Math.max(0, Math.floor(left - margin));
  const originY = Math.max(0, Math.floor(top - margin));
  const endX = Math.min(picture.width, Math.ceil(right + margin));
  const endY = Math.min(picture.height, Math.ceil(bottom + margin));
  const scale = Math.max(1, face.width / WORK_WIDTH);
  const width = Math.max(1, Math.ceil((endX - originX) / scale));
  const height = Math.max(1, Math.ceil((endY - originY) / scale));
  return { originX, originY, scale, width, height };
}
