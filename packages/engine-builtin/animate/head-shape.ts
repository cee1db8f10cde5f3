import { POINTS } from '@semblance/vision/face-mesh';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import { FACE_TRIANGLES } from '@semblance/vision/face-topology';
import { smoothstep } from '@semblance/vision/plane/plane';
import { type FaceFrame, toFaceFrame } from './face-frame.ts';
import { LIP_COLUMNS, LIP_POINTS, LIP_ROWS, lipColumn } from './lips.ts';
import { anglesOf } from './rotation.ts';

/** Distances of the head's rings from the outline of the face, in IOD. */
const RINGS = [0.08, 0.2, 0.36, 0.56, 0.8, 1.1, 1.5, 2, 2.6, 3.4] as const;
const SIDES = FACE_OVAL.length;
/** Depth of the head's outline and of the neck behind the eyes, in IOD. */
const OUTLINE_DEPTH = 1;
/** The joint about which a head turns, in the face's own frame. */
export const NECK: readonly [number, number, number] = [0, 1.25, 0.95];

/** The face's mesh, continued over hair, ears, neck and shoulders to where nothing moves. */
export interface HeadShape {
  /** x, y, z of each vertex at rest, in pixels: the mesh's points, then ring after ring. */
  readonly rest: Float32Array;
  /** The same in the face's own frame. */
  readonly own: Float32Array;
  /** x and y of each vertex at rest: its place on the texture. */
  readonly texture: Float32Array;
  /** How far each vertex follows the head: 1 on the head, 0 on the shoulders. */
  readonly follow: Float32Array;
  /** How far what does not follow the head follows the shoulders. */
  readonly shoulders: Float32Array;
  /** Triangles between the face's outline and the rings, outermost first. */
  readonly surround: Uint16Array;
  /** The mesh's own triangles without the eye openings. */
  readonly skin: Uint16Array;
  /** The eye openings. */
  readonly eyes: Uint16Array;
}

/** Places beyond which a picture shows nothing, so that what it cuts off there cannot move. */
export interface Cut {
  readonly left: number;
  readonly right: number;
  readonly top: number;
}

/** Distance from a border of the picture, in IOD, at which shoulders move freely. */
const ROOM = { beside: 1.2, below: 1.8 };

/**
 * Builds the rings around a face.
 * @param cut borders at which the head is cut off
 * @param picture size of the picture, in which the shoulders can move; without it they do not
 */
export function headShape(
  points: Float32Array,
  frame: FaceFrame,
  cut: Cut,
  picture?: { readonly width: number; readonly height: number },
): HeadShape {
  const { iod, axes } = frame;
  const count = POINTS + SIDES * RINGS.length;
  const rest = new Float32Array(count * 3);
  rest.set(flattenFarSide(points, frame));
  const center = [0, 0];
  // The face's down direction in the picture.
  const down = [axes[1] as number, axes[4] as number];
  const norm = Math.hypot(...down);
  for (const i of FACE_OVAL) {
    center[0] = (center[0] as number) + (points[i * 3] as number) / SIDES;
    center[1] = (center[1] as number) + (points[i * 3 + 1] as number) / SIDES;
  }
  const depth = frame.origin[2] + OUTLINE_DEPTH * iod;
  FACE_OVAL.forEach((index, side) => {
    const x = rest[index * 3] as number;
    const y = rest[index * 3 + 1] as number;
    const z = rest[index * 3 + 2] as number;
    const ox = x - (center[0] as number);
    const oy = y - (center[1] as number);
    const length = Math.hypot(ox, oy);
    // Above the forehead the skull recedes slowly; beside it the outline of the face is already as deep as the
    // head.
    const up = -(ox * (down[0] as number) + oy * (down[1] as number)) / norm / length;
    const reach = 0.75 + 0.85 * Math.max(0, up);
    RINGS.forEach((distance, ring) => {
      const v = (POINTS + ring * SIDES + side) * 3;
      rest[v] = x + (ox / length) * distance * iod;
      rest[v + 1] = y + (oy / length) * distance * iod;
      rest[v + 2] = z + (depth - z) * smoothstep(0, reach, distance);
    });
  });
  const own = toFaceFrame(frame, rest);
  const texture = new Float32Array(count * 2);
  const follow = new Float32Array(count).fill(1);
  const shoulders = new Float32Array(count);
  const chin = heightOf(rest, 152);
  function heightOf(from: Float32Array, v: number): number {
    const dx = (from[v * 3] as number) - frame.origin[0];
    const dy = (from[v * 3 + 1] as number) - frame.origin[1];
    return (dx * (down[0] as number) + dy * (down[1] as number)) / norm / iod;
  }
  for (let v = 0; v < count; v++) {
    const x = rest[v * 3] as number;
    const y = rest[v * 3 + 1] as number;
    texture[v * 2] = x;
    texture[v * 2 + 1] = y;
    if (v < POINTS) continue;
    const outside = RINGS[Math.floor((v - POINTS) / SIDES)] as number;
    const below = heightOf(rest, v) - (chin - 0.65);
    const trunk = smoothstep(0, 1.6, below) * smoothstep(0, 0.8, outside);
    let hanging = 1;
    if (picture) {
      const beside = ROOM.beside * iod;
      let free = smoothstep(0, beside, x) * smoothstep(0, beside, picture.width - x);
      // Hair that hangs out of the picture beside the neck stays where it is.
      hanging = 1 - smoothstep(0, 0.6, below) * (1 - free);
      free *= smoothstep(0, ROOM.below * iod, picture.height - y);
      shoulders[v] = trunk * free * (1 - smoothstep(2, 3.4, outside));
    }
    let w = hanging * (1 - trunk);
    w *= 1 - smoothstep(1.5, 3.4, outside);
    const room = 0.8 * iod;
    w *= smoothstep(0, room, x - cut.left) * smoothstep(0, room, cut.right - x);
    w *= smoothstep(0, room, y - cut.top);
    follow[v] = w;
  }
  insetLips(own, texture);
  return { rest, own, texture, follow, shoulders, surround: surroundTriangles(), ...splitFace() };
}

/** Most that shoulders move of what the head does. */
const SHOULDERS_MOST = 0.4;

/** Returns how far each vertex moves of what the head does. */
export function mobility({ follow, shoulders }: HeadShape): Float32Array {
  return follow.map((w, v) => w + (1 - w) * SHOULDERS_MOST * (shoulders[v] as number));
}

/** Distance of the lips at the middle from which teeth are visible between them, in IOD. */
const PARTED = 0.05;
/** Share of the way from a lip's edge to the row of points beside it. */
const INSET = 0.6;

/**
 * With parted lips the mesh's edges lie a little inside the opening, on teeth, and would carry them along between
 * closing lips. So the colours of the edges are taken from the lips.
 */
function insetLips(own: Float32Array, texture: Float32Array): void {
  if ((own[14 * 3 + 1] as number) - (own[13 * 3 + 1] as number) < PARTED) return;
  const row = LIP_ROWS[1];
  for (let k = 0; k < LIP_COLUMNS; k++) {
    const { upperInner, lowerInner } = lipColumn(k);
    for (const [edge, beside] of [
      [LIP_POINTS[upperInner] as number, row.upper[k] as number],
      [LIP_POINTS[lowerInner] as number, row.lower[k] as number],
    ] as const) {
      for (const i of [0, 1]) {
        const from = texture[edge * 2 + i] as number;
        texture[edge * 2 + i] = from + INSET * ((texture[beside * 2 + i] as number) - from);
      }
    }
  }
}

/** Cosine of the angle beyond which a surface is seen edge-on and shows almost nothing. */
const EDGE_ON = 0.4;

/**
 * Flattens the far side of a turned face. The picture shows its farther cheek edge-on and the mesh continues behind
 * it. Turned back, it would be stretched from few pixels that also show hair and background.
 */
function flattenFarSide(points: Float32Array, frame: FaceFrame): Float32Array {
  const out = points.slice();
  const turn = anglesOf(frame.axes).yaw;
  const strength = smoothstep(0.08, 0.3, Math.abs(turn));
  if (strength === 0) return out;
  const own = toFaceFrame(frame, points);
  const facing = facings(points);
  const isFar = (v: number): boolean => (own[v * 3] as number) * Math.sign(turn) > 0.3;
  let deepest = -Infinity;
  for (let v = 0; v < POINTS; v++) {
    if (isFar(v) && (facing[v] as number) >= EDGE_ON)
      deepest = Math.max(deepest, points[v * 3 + 2] as number);
  }
  for (let v = 0; v < POINTS; v++) {
    const z = points[v * 3 + 2] as number;
    if (isFar(v) && z > deepest) out[v * 3 + 2] = z + (deepest - z) * strength;
  }
  const hidden = Array.from({ length: POINTS }, (_, v) => v).filter(
    (v) => isFar(v) && (facing[v] as number) < 0,
  );
  unfold(out, hidden, frame, Math.sign(turn));
  return out;
}

/** Largest vertical distance of points at the same height, in IOD. */
const SAME_HEIGHT = 0.12;
/** Largest distance by which a cheek is folded back, in IOD. */
const FOLD = 0.25;

/**
 * Moves the mesh that folds back behind the edge of a turned face out to the edge, because the picture shows
 * nothing of it. So no second cheek appears when the head turns back.
 * @param out the mesh, changed in place
 * @param side of the edge: 1 at the person's left, -1 at the right
 */
function unfold(out: Float32Array, hidden: readonly number[], frame: FaceFrame, side: number): void {
  const { axes, iod } = frame;
  const norm = Math.hypot(axes[0] as number, axes[3] as number);
  const [acrossX, acrossY] = [(axes[0] as number) / norm, (axes[3] as number) / norm];
  const from = out.slice();
  const across = (v: number): number =>
    side * ((from[v * 3] as number) * acrossX + (from[v * 3 + 1] as number) * acrossY);
  const along = (v: number): number =>
    (from[v * 3 + 1] as number) * acrossX - (from[v * 3] as number) * acrossY;
  for (const v of hidden) {
    let edge = across(v);
    for (let other = 0; other < POINTS; other++) {
      if (Math.abs(along(other) - along(v)) < SAME_HEIGHT * iod) edge = Math.max(edge, across(other));
    }
    // Points in the middle of the face that face away, as beside the nose, stay.
    if (edge - across(v) > FOLD * iod) continue;
    const by = (edge - across(v)) * side;
    out[v * 3] = (from[v * 3] as number) + by * acrossX;
    out[v * 3 + 1] = (from[v * 3 + 1] as number) + by * acrossY;
  }
}

/** Returns how far each mesh point faces the viewer: 1 straight on, 0 edge-on, below 0 away. */
function facings(points: Float32Array): Float32Array {
  const normals = new Float32Array(POINTS * 3);
  for (let t = 0; t < FACE_TRIANGLES.length; t += 3) {
    const [a, b, c] = [...FACE_TRIANGLES.subarray(t, t + 3)].map((v) => v * 3) as [number, number, number];
    const d = (from: number, to: number, k: number): number =>
      (points[to + k] as number) - (points[from + k] as number);
    const normal = [
      d(a, b, 1) * d(a, c, 2) - d(a, b, 2) * d(a, c, 1),
      d(a, b, 2) * d(a, c, 0) - d(a, b, 0) * d(a, c, 2),
      d(a, b, 0) * d(a, c, 1) - d(a, b, 1) * d(a, c, 0),
    ];
    for (const v of [a, b, c]) {
      for (let k = 0; k < 3; k++) normals[v + k] = (normals[v + k] as number) + (normal[k] as number);
    }
  }
  return Float32Array.from({ length: POINTS }, (_, v) => {
    const [x, y, z] = normals.subarray(v * 3, v * 3 + 3) as unknown as [number, number, number];
    return -z / (Math.hypot(x, y, z) || 1);
  });
}

/** Returns the strips between neighbouring rings. */
function surroundTriangles(): Uint16Array {
  const vertex = (ring: number, side: number): number =>
    ring < 0 ? (FACE_OVAL[side % SIDES] as number) : POINTS + ring * SIDES + (side % SIDES);
  const out: number[] = [];
  for (let ring = RINGS.length - 1; ring >= 0; ring--) {
    for (let side = 0; side < SIDES; side++) {
      const [a, b] = [vertex(ring - 1, side), vertex(ring - 1, side + 1)];
      const [c, d] = [vertex(ring, side), vertex(ring, side + 1)];
      // FACE_OVAL runs clockwise in the picture; front-facing triangles run the other way.
      out.push(a, b, c, b, d, c);
    }
  }
  return Uint16Array.from(out);
}

/** Rings of points that bound the eye openings. */
const EYE_POINTS = [
  new Set([33, 7, 163, 144, 145, 153, 154, 155, 133, 173, 157, 158, 159, 160, 161, 246]),
  new Set([263, 249, 390, 373, 374, 380, 381, 382, 362, 398, 384, 385, 386, 387, 388, 466]),
];

function splitFace(): { skin: Uint16Array; eyes: Uint16Array } {
  const skin: number[] = [];
  const eyes: number[] = [];
  for (let t = 0; t < FACE_TRIANGLES.length; t += 3) {
    const corners = [...FACE_TRIANGLES.subarray(t, t + 3)];
    const inEye = EYE_POINTS.some((set) => corners.every((corner) => set.has(corner)));
    (inEye ? eyes : skin).push(...corners);
  }
  return { skin: Uint16Array.from(skin), eyes: Uint16Array.from(eyes) };
}

/** Sorts triangles so that those farthest from the viewer come first. */
export function farthestFirst(triangles: Uint16Array, depth: Float32Array): Uint16Array {
  const count = triangles.length / 3;
  // A key has the depth in its upper half and the triangle number in the lower half: plain numbers sort fastest.
  const keys = new Float64Array(count);
  for (let t = 0; t < count; t++) {
    const z =
      (depth[triangles[t * 3] as number] as number) +
      (depth[triangles[t * 3 + 1] as number] as number) +
      (depth[triangles[t * 3 + 2] as number] as number);
    keys[t] = Math.round(-z * 16) * 4096 + t;
  }
  keys.sort();
  const out = new Uint16Array(triangles.length);
  for (let k = 0; k < count; k++) {
    const key = keys[k] as number;
    const t = key - Math.floor(key / 4096) * 4096;
    out[k * 3] = triangles[t * 3] as number;
    out[k * 3 + 1] = triangles[t * 3 + 1] as number;
    out[k * 3 + 2] = triangles[t * 3 + 2] as number;
  }
  return out;
}
