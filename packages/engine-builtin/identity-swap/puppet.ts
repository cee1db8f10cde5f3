import type { Plane } from '@semblance/vision/plane/plane';
import type { Cutout } from './cutout.ts';
import { type Affine, apply, clamp, dot, length, mix, sub, toSegment, unit, type Vec } from './geometry.ts';
import { LIMB_RADIUS } from './segment.ts';
import { headRadius, LIMBS, type Limb, type Skeleton } from './skeleton.ts';

/** Mesh cells per body size. */
const CELLS = 11;
/** Indices of the bones that move vertices: torso, head, then three for each limb. */
const TORSO = 0;
export const HEAD = 1;
export const BONES = 2 + 3 * LIMBS.length;
export const boneOf = (limb: Limb, k: number): number => 2 + 3 * LIMBS.indexOf(limb) + k;

/** A part of the cut-out as triangles that bones move. */
export interface Layer {
  readonly part: 'trunk' | Limb;
  readonly alpha: Plane;
  /** x and y of each vertex on the cut-out. */
  readonly from: Float32Array;
  /** Weights of the bones for each vertex: BONES numbers per vertex. */
  readonly weights: Float32Array;
  readonly triangles: Uint16Array;
}

/** Positions of the bones, as maps from the cut-out to the frame. */
export interface BonePlaces {
  readonly torso: (p: Vec) => Vec;
  /** Maps of HEAD and of the limbs' bones; undefined for a bone that is not drawn. */
  readonly maps: readonly (Affine | undefined)[];
  /** Rotation of the face to the right and down, in head radii. */
  readonly turn: Vec;
}

export function layersOf(cutout: Cutout): Layer[] {
  const parts = ['trunk', ...LIMBS] as const;
  return parts.flatMap((part, i) => {
    if (part !== 'trunk' && cutout.reach[part] === 0) return [];
    return [layerOf(cutout, part, cutout.alphas[i] as Plane)];
  });
}

function layerOf(cutout: Cutout, part: Layer['part'], alpha: Plane): Layer {
  const { skeleton, width, height } = cutout;
  const cell = Math.max(3, skeleton.size / CELLS);
  const columns = Math.ceil(width / cell) + 1;
  const rows = Math.ceil(height / cell) + 1;
  const seen = usedCells(alpha, cell, columns - 1, rows - 1);
  // A head that turns reaches beyond its outline in the picture.
  const used = part === 'trunk' ? grown(seen, columns - 1, rows - 1) : seen;
  const place = new Int32Array(columns * rows).fill(-1);
  const from: number[] = [];
  const triangles: number[] = [];
  const vertex = (column: number, row: number): number => {
    const i = row * columns + column;
    if (place[i] === -1) {
      place[i] = from.length / 2;
      from.push(Math.min(width, column * cell), Math.min(height, row * cell));
    }
    return place[i] as number;
  };
  for (let row = 0; row < rows - 1; row++) {
    for (let column = 0; column < columns - 1; column++) {
      if (used[row * (columns - 1) + column] === 0) continue;
      const [a, b] = [vertex(column, row), vertex(column + 1, row)];
      const [c, d] = [vertex(column, row + 1), vertex(column + 1, row + 1)];
      // Anticlockwise in a picture with y down, as the rasteriser expects.
      triangles.push(a, c, b, b, c, d);
    }
  }
  const count = from.length / 2;
  const weights = new Float32Array(count * BONES);
  for (let v = 0; v < count; v++) {
    const p = { x: from[v * 2] as number, y: from[v * 2 + 1] as number };
    weigh(cutout, part, p, weights.subarray(v * BONES, (v + 1) * BONES));
  }
  return { part, alpha, from: Float32Array.from(from), weights, triangles: Uint16Array.from(triangles) };
}

/** Returns the cells in which a layer is visible. */
function usedCells(alpha: Plane, cell: number, columns: number, rows: number): Uint8Array {
  const used = new Uint8Array(columns * rows);
  for (let y = 0; y < alpha.height; y++) {
    const row = Math.min(rows - 1, Math.floor(y / cell)) * columns;
    for (let x = 0; x < alpha.width; x++) {
      if ((alpha.data[y * alpha.width + x] as number) > 0.01) {
        used[row + Math.min(columns - 1, Math.floor(x / cell))] = 1;
      }
    }
  }
  return used;
}

/** Returns the used cells and their neighbours. */
function grown(used: Uint8Array, columns: number, rows: number): Uint8Array {
  const out = used.slice();
  for (let i = 0; i < used.length; i++) {
    if (used[i] === 0) continue;
    const [x, y] = [i % columns, Math.floor(i / columns)];
    for (let v = Math.max(0, y - 1); v <= Math.min(rows - 1, y + 1); v++) {
      for (let u = Math.max(0, x - 1); u <= Math.min(columns - 1, x + 1); u++) out[v * columns + u] = 1;
    }
  }
  return out;
}

/** Computes the soft weights of the bones for a place of the cut-out. */
function weigh({ skeleton, reach }: Cutout, part: Layer['part'], p: Vec, out: Float32Array): void {
  const { size, limbs } = skeleton;
  const neck = neckShare(skeleton, p);
  const candidates: { bone: number; distance: number; soft: number }[] = [];
  const offer = (limb: Limb): void => {
    const joints = limbs[limb];
    const soft = 0.6 * LIMB_RADIUS[limb] * size;
    for (let k = 0; k < Math.min(3, reach[limb]); k++) {
      const { distance } = toSegment(p, joints[k] as Vec, joints[k + 1] as Vec);
      candidates.push({ bone: boneOf(limb, k), distance, soft });
    }
  };
  if (part === 'trunk') for (const limb of LIMBS) if (limb.endsWith('Leg')) offer(limb);
  if (part !== 'trunk') offer(part);
  const isArm = part.endsWith('Arm');
  const torso = torsoDistance(skeleton, p, isArm ? (part as Limb) : undefined);
  candidates.push({ bone: TORSO, distance: torso, soft: 0.6 * 0.16 * size });
  const nearest = Math.min(...candidates.map(({ distance }) => distance));
  let sum = 0;
  for (const { bone, distance, soft } of candidates) {
    const w = Math.exp(-(distance ** 2 - nearest ** 2) / soft ** 2);
    out[bone] = w;
    sum += w;
  }
  for (const { bone } of candidates) out[bone] = (out[bone] as number) / sum;
  const share = part === 'trunk' ? neck : 0;
  out[HEAD] = share * (out[TORSO] as number);
  out[TORSO] = (1 - share) * (out[TORSO] as number);
}

/** Returns how much a place follows the head: 0 on the shoulders, 1 from the chin up. */
function neckShare({ shoulders, chin, head, size }: Skeleton, p: Vec): number {
  const base = mix(shoulders, chin, 0.05);
  const up = sub(chin, base);
  const along = dot(sub(p, base), up) / Math.max(1e-6, dot(up, up));
  // Hair beside the head that falls on the shoulders belongs to them more and more below the middle of the head.
  const t = clamp(along / 0.95, 0, 1);
  const soft = t * t * (3 - 2 * t);
  return length(sub(p, head)) < 0.2 * size ? Math.max(soft, 0.9) : soft;
}

/** Returns the distance of a place from the torso's bones; for an arm, only from the shoulder end. */
function torsoDistance({ hips, shoulders, hipSide, limbs, size }: Skeleton, p: Vec, arm?: Limb): number {
  if (arm) {
    const [root, bend] = limbs[arm];
    // From the shoulder inwards and a little down the arm.
    const inner = mix(root, shoulders, 0.8);
    return toSegment(p, mix(root, bend, -0.05), inner).distance;
  }
  const spread = 1.25;
  const left = { x: hips.x + spread * hipSide.x, y: hips.y + spread * hipSide.y };
  const right = { x: hips.x - spread * hipSide.x, y: hips.y - spread * hipSide.y };
  const spine = unit(sub(shoulders, hips));
  // Everything above the line through the hips is torso.
  const above = dot(sub(p, hips), spine);
  const line = toSegment(p, left, right).distance;
  return above > 0 ? 0 : Math.max(0, line - 0.05 * size);
}

/**
 * Returns the position of a place of the head after a rotation. As on a ball, the most prominent places move most.
 * @param turn shift of the middle of the face to the right and down, in head radii
 */
function turned(own: Skeleton, p: Vec, turn: Vec): Vec {
  const radius = headRadius(own);
  const d = sub(p, own.head);
  const [down, right] = [own.headDown, { x: own.headDown.y, y: -own.headDown.x }];
  // Heads are higher than wide, and places above the forehead or below the chin recede.
  const out = 1 - (dot(d, right) / radius) ** 2 - (dot(d, down) / (1.35 * radius)) ** 2;
  if (out <= 0) return p;
  const by = radius * out;
  return {
    x: p.x + by * (turn.x * right.x + turn.y * down.x),
    y: p.y + by * (turn.x * right.y + turn.y * down.y),
  };
}

/** Returns the positions of a layer's vertices on the frame. */
export function placeLayer(
  layer: Layer,
  own: Skeleton,
  { torso, maps, turn }: BonePlaces,
  out?: Float32Array,
): Float32Array {
  const { from, weights } = layer;
  const to = out ?? new Float32Array(from.length);
  for (let v = 0; v < from.length / 2; v++) {
    const p = { x: from[v * 2] as number, y: from[v * 2 + 1] as number };
    let [x, y, sum] = [0, 0, 0];
    for (let b = 0; b < BONES; b++) {
      const w = weights[v * BONES + b] as number;
      if (w < 1e-4) continue;
      const map = maps[b];
      if (b !== TORSO && !map) continue;
      const at = b === HEAD ? turned(own, p, turn) : p;
      const q = map && b !== TORSO ? apply(map, at) : torso(p);
      x += w * q.x;
      y += w * q.y;
      sum += w;
    }
    to[v * 2] = x / sum;
    to[v * 2 + 1] = y / sum;
  }
  return to;
}
