import { FACE_OVAL } from '@semblance/vision/face-regions';
import { pushPull } from '@semblance/vision/plane/fill';
import { blur, fillPolygon, grow, type Plane, plane } from '@semblance/vision/plane/plane';
import { type FaceFrame, faceFrame } from '../animate/face-frame.ts';
import { type HeadShape, headShape } from '../animate/head-shape.ts';
import type { Planes } from '../animate/openings.ts';
import { drawPortrait, movePlane, type Portrait, type Pose, withRig } from '../animate/portrait.ts';
import type { BytePlane } from '../animate/raster.ts';
import { planesOf } from '../animate/yuv.ts';
import type { Cutout } from './cutout.ts';

/** Radius of the area around the eyes in which a head is redrawn, in eye distances. */
const REACH = 4.2;
/** Alignment of patches in pixels: cut-outs are halved up to three times, and chroma once more. */
const GRID = 16;
/** Eye distance, in pixels of the cut-out, below which a face shows no expression. */
const LEAST_IOD = 8;
/** Distance beyond the outline of the face in which hair is taken for the back of a head, in eye distances. */
const BACK = 0.12;

/** What a head is taken from: only the first opacity counts. */
type HeadSource = Pick<Cutout, 'width' | 'height' | 'armless' | 'alphas'>;

/** The changed part of a cut-out that replaces the head. */
export interface HeadPatch {
  readonly left: number;
  readonly top: number;
  readonly planes: Planes;
  readonly alpha: BytePlane;
}

/** The head of a cut-out, which can turn and have an expression. From behind it has no face. */
export class HeadPainter {
  readonly portrait: Portrait;
  readonly #left: number;
  readonly #top: number;
  readonly #alpha: BytePlane;
  readonly #flat: HeadPatch;
  readonly #moving: { readonly data: Uint8Array; readonly patch: HeadPatch };
  #behind: HeadPatch | undefined;

  /** @param points of the face, in pixels of the cut-out */
  static of(cutout: HeadSource, points: Float32Array): HeadPainter | undefined {
    const frame = faceFrame(points);
    const { iod, origin } = frame;
    const part = {
      left: Math.max(0, down(origin[0] - REACH * iod)),
      top: Math.max(0, down(origin[1] - REACH * iod)),
      right: Math.min(down(cutout.width), down(origin[0] + REACH * iod) + GRID),
      bottom: Math.min(down(cutout.height), down(origin[1] + REACH * iod) + GRID),
    };
    const isSeen = part.left < origin[0] && part.right > origin[0] && part.bottom > origin[1];
    return iod >= LEAST_IOD && isSeen ? new HeadPainter(cutout, points, frame, part) : undefined;
  }

  private constructor(
    cutout: HeadSource,
    points: Float32Array,
    frame: FaceFrame,
    part: { left: number; top: number; right: number; bottom: number },
  ) {
    const { left, top } = part;
    const [width, height] = [part.right - left, part.bottom - top];
    [this.#left, this.#top] = [left, top];
    const still = cropped(cutout.armless, part);
    const trunk = cutout.alphas[0] as Plane;
    this.#alpha = { width, height, data: new Uint8Array(width * height) };
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        const value = trunk.data[(top + y) * cutout.width + left + x] as number;
        this.#alpha.data[y * width + x] = 255 * value + 0.5;
      }
    }
    const own = points.slice();
    for (let i = 0; i < own.length; i += 3) {
      own[i] = (own[i] as number) - left;
      own[i + 1] = (own[i + 1] as number) - top;
    }
    const place: FaceFrame = {
      ...frame,
      origin: [frame.origin[0] - left, frame.origin[1] - top, frame.origin[2]],
    };
    const shape = headShape(own, place, cutAt(this.#alpha, part, cutout));
    const planes = planesOf(still, width, height);
    const box = { left: 0, top: 0, right: width, bottom: height };
    // The colours of the cut-out extend beyond its edge: all moving content is opaque, and its matte moves along.
    const opaque = new Uint8Array(0);
    this.portrait = withRig({
      width,
      height,
      frame: place,
      shape,
      still,
      box,
      background: planes,
      alpha: { luma: opaque, chroma: opaque },
      surround: { opaque: movingOf(shape), soft: new Uint16Array(0) },
    });
    this.#flat = { left, top, planes, alpha: this.#alpha };
    const data = still.slice();
    const alpha = { width, height, data: new Uint8Array(width * height) };
    this.#moving = { data, patch: { left, top, planes: planesOf(data, width, height), alpha } };
  }

  /** The head as its picture shows it. */
  get flat(): HeadPatch {
    return this.#flat;
  }

  /** Returns the head in a pose; valid until the next call. */
  posed(pose: Pose): HeadPatch {
    const { data, patch } = this.#moving;
    drawPortrait(this.portrait, pose, data);
    patch.alpha.data.set(this.#alpha.data);
    movePlane(this.portrait, pose, this.#alpha, patch.alpha);
    return patch;
  }

  /** Returns the head from behind: hair and other content around the face extends over it. */
  behind(): HeadPatch {
    this.#behind ??= { left: this.#left, top: this.#top, planes: this.#faceless(), alpha: this.#alpha };
    return this.#behind;
  }

  #faceless(): Planes {
    const { still, width, height, shape, frame } = this.portrait;
    const outline = FACE_OVAL.flatMap((i) => [shape.rest[i * 3] as number, shape.rest[i * 3 + 1] as number]);
    const data = still.slice();
    const from = planesOf(still, width, height);
    const to = planesOf(data, width, height);
    for (const [name, scale] of [
      ['y', 1],
      ['u', 0.5],
      ['v', 0.5],
    ] as const) {
      const source = from[name];
      const oval = plane(source.width, source.height);
      fillPolygon(
        oval,
        outline.map((value) => value * scale),
      );
      const face = grow(oval, BACK * frame.iod * scale);
      const known = plane(source.width, source.height);
      for (let i = 0; i < known.data.length; i++) known.data[i] = 1 - (face.data[i] as number);
      const values = new Float32Array(source.data.length * 3);
      for (let i = 0; i < source.data.length; i++) values[i * 3] = source.data[i] as number;
      const filled = pushPull({ width: source.width, height: source.height, data: values }, known);
      const soft = blur(face, 0.05 * frame.iod * scale);
      for (let i = 0; i < source.data.length; i++) {
        const value = source.data[i] as number;
        to[name].data[i] = value + ((filled.data[i * 3] as number) - value) * (soft.data[i] as number) + 0.5;
      }
    }
    return to;
  }
}

const down = (value: number): number => Math.floor(value / GRID) * GRID;

/** Crops planes to one block of a frame. */
function cropped(
  { y, u, v }: Planes,
  { left, top, right, bottom }: { left: number; top: number; right: number; bottom: number },
): Uint8Array {
  const [width, height] = [right - left, bottom - top];
  const out = new Uint8Array((width * height * 3) / 2);
  const to = planesOf(out, width, height);
  for (const [source, target, per] of [
    [y, to.y, 1],
    [u, to.u, 2],
    [v, to.v, 2],
  ] as const) {
    for (let row = 0; row < target.height; row++) {
      const at = (top / per + row) * source.width + left / per;
      target.data.set(source.data.subarray(at, at + target.width), row * target.width);
    }
  }
  return out;
}

/** Returns where the picture cuts the head off; the head cannot move there. */
function cutAt(
  { width, height, data }: BytePlane,
  part: { left: number; top: number; right: number },
  cutout: HeadSource,
): { left: number; right: number; top: number } {
  const covers = (x: number, y: number): boolean => (data[y * width + x] as number) > 127;
  const column = (x: number): boolean => {
    for (let y = 0; y < height / 2; y++) if (covers(x, y)) return true;
    return false;
  };
  let above = false;
  for (let x = 0; x < width; x++) above ||= covers(x, 0);
  return {
    left: part.left === 0 && column(0) ? 0 : -1e9,
    right: part.right >= down(cutout.width) && column(width - 1) ? width : 1e9,
    top: part.top === 0 && above ? 0 : -1e9,
  };
}

/** Returns the triangles around the face that move with it. */
function movingOf({ surround, follow }: HeadShape): Uint16Array {
  const out: number[] = [];
  for (let t = 0; t < surround.length; t += 3) {
    const triangle = surround.subarray(t, t + 3);
    if (triangle.some((v) => (follow[v] as number) >= 1e-3)) out.push(...triangle);
  }
  return Uint16Array.from(out);
}
