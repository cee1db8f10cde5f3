import type { CropTransform, Point } from '@semblance/vision/picture';
import type { TemplateName } from '../contracts/contract.ts';

/**
 * Positions of five points in an aligned crop, as shares of its side: the eyes (the one on the left of the picture
 * first), the tip of the nose and the corners of the mouth. The templates are ArcFace's for 112 pixels and its
 * descendants, DeepFaceLab's, FFHQ's, and MTCNN's.
 */
const TEMPLATES: Readonly<Record<TemplateName, readonly (readonly [number, number])[]>> = {
  arcface_112_v1: [
    [0.35473214, 0.45658929],
    [0.64526786, 0.45658929],
    [0.5, 0.61154464],
    [0.37913393, 0.776875],
    [0.62086607, 0.776875],
  ],
  arcface_112_v2: [
    [0.34191607, 0.46157411],
    [0.65653393, 0.45983393],
    [0.500225, 0.64050536],
    [0.37097589, 0.82469196],
    [0.63151696, 0.82325089],
  ],
  arcface_128: [
    [0.36167656, 0.40387734],
    [0.63696719, 0.40235469],
    [0.50019687, 0.56044219],
    [0.38710391, 0.72160547],
    [0.61507734, 0.72034453],
  ],
  dfl_whole_face: [
    [0.35342266, 0.39285716],
    [0.62797622, 0.39285716],
    [0.48660713, 0.5401786],
    [0.38839287, 0.68750011],
    [0.59821427, 0.68750011],
  ],
  ffhq_512: [
    [0.37691676, 0.46864664],
    [0.62285697, 0.46912813],
    [0.50123859, 0.61331904],
    [0.39308822, 0.725411],
    [0.61150205, 0.72490465],
  ],
  mtcnn_512: [
    [0.36562865, 0.46733799],
    [0.63305391, 0.46585885],
    [0.50019127, 0.61942959],
    [0.39032951, 0.77598822],
    [0.61178945, 0.77476328],
  ],
};

/**
 * Returns the crop of `size`² pixels in which five points of a face match a template: the least-squares similarity
 * (rotation, scale, shift; Umeyama 1991).
 */
export function alignFace(five: readonly Point[], template: TemplateName, size: number): CropTransform {
  const goal = TEMPLATES[template].map(([x, y]) => ({ x: x * size, y: y * size }));
  const from = mean(five);
  const to = mean(goal);
  let dot = 0;
  let cross = 0;
  let spread = 0;
  for (const [i, point] of five.entries()) {
    const wanted = goal[i] as Point;
    const px = point.x - from.x;
    const py = point.y - from.y;
    const qx = wanted.x - to.x;
    const qy = wanted.y - to.y;
    dot += px * qx + py * qy;
    cross += px * qy - py * qx;
    spread += px * px + py * py;
  }
  // The map from picture to crop rotates by `turn` and scales by `zoom`; the crop's own transform is its inverse.
  const turn = Math.atan2(cross, dot);
  const zoom = Math.hypot(dot, cross) / spread;
  const scale = 1 / zoom;
  const cos = Math.cos(-turn) * scale;
  const sin = Math.sin(-turn) * scale;
  return {
    scale,
    angle: -turn,
    originX: from.x - (cos * to.x - sin * to.y),
    originY: from.y - (sin * to.x + cos * to.y),
  };
}

/** Returns five of the 68 points in iBUG's numbering. */
export function fiveOf68(points: readonly Point[]): Point[] {
  const at = (index: number): Point => points[index] as Point;
  return [mean(points.slice(36, 42)), mean(points.slice(42, 48)), at(30), at(48), at(54)];
}

function mean(points: readonly Point[]): Point {
  const sum = points.reduce((total, { x, y }) => ({ x: total.x + x, y: total.y + y }), { x: 0, y: 0 });
  return { x: sum.x / points.length, y: sum.y / points.length };
}
