import type { Picture } from '@semblance/engine-api/picture';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import { type CropTransform, cropRgb, type RgbImage } from '@semblance/vision/picture';
import { pushPull } from '@semblance/vision/plane/fill';
import {
  blur,
  distanceInside,
  fillPolygon,
  grow,
  type Plane,
  plane,
  smoothstep,
} from '@semblance/vision/plane/plane';
import { calmOf, trustIn } from './calm.ts';
import { complete } from './complete.ts';
import { type Copies, copiesOf } from './copies.ts';
import { enlarge } from './enlarge.ts';
import type { FaceFrame } from './face-frame.ts';
import { fuse } from './fuse.ts';
import { withHanging } from './hanging.ts';
import { type HeadShape, headShape, mobility } from './head-shape.ts';
import { KIND } from './kinds.ts';
import { personMatte } from './matte.ts';
import type { Nearby } from './nearby.ts';
import { sampleByte } from './raster.ts';
import { type ClipBox, scanTriangles } from './triangle-spans.ts';

/** Eye distance, in pixels, at which head and background are separated. */
const WORK_IOD = 28;
/**
 * Distances from the edge of the person, in IOD: background that moves along, background that is made up, and
 * background that is not copied, because it may have a fringe of the person.
 */
const CARRIED = 0.05;
const PLATE = 0.1;
const FRINGE = 0.18;
/**
 * Mobility up to which the background stays the still's own, and from which it is made up. At the outer edge of the
 * moving mesh single pixels of it show, which would be a dotted line across clothes.
 */
const UNCOVERED = [0.01, 0.03] as const;
/** Mobility up to which the person moves as shoulders do, which uncover little, and from which as a head does. */
const HEAD = [0.5, 0.8] as const;
/** Depth behind that edge, in IOD, up to which background can come into sight. */
const DEPTH = 1;
/** Depth, in IOD, from which copies fade, because little around them tells what they should be. */
const UNSURE = 0.65;

/** The background behind a head, and the moving part of the picture. */
export interface Layers {
  readonly shape: HeadShape;
  /** Part of the picture that can change; even. */
  readonly box: ClipBox;
  /** Red, green, blue of the background without the person, over the box. */
  readonly background: Uint8Array;
  /** Opacity of the moving layer, 0–255, over the box. */
  readonly alpha: Uint8Array;
}

/**
 * Separates the person from the background, and continues the background behind the person.
 * @param person a rough mask of the person, 0–255 for each pixel of the picture
 */
export function separate(
  picture: Picture,
  points: Float32Array,
  frame: FaceFrame,
  person?: Uint8Array,
): Layers {
  const { iod, origin } = frame;
  const left = Math.max(0, Math.floor(origin[0] - 4.2 * iod) & ~1);
  const top = Math.max(0, Math.floor(origin[1] - 4.2 * iod) & ~1);
  const right = Math.min(picture.width, (Math.ceil(origin[0] + 4.2 * iod) + 1) & ~1);
  const bottom = Math.min(picture.height, (Math.ceil(origin[1] + 5.2 * iod) + 1) & ~1);
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
  const seen = person && maskOfCrop(person, picture, crop, { width, height });
  const place = { points: small, frame: smallFrame };
  const matte = withHanging(image, personMatte(image, place, seen), place);
  const chin = (small[152 * 3 + 1] as number) | 0;
  const cut = {
    left: left === 0 && touches(matte, 0, 1, 0, chin) ? 0 : -1e9,
    right: right === picture.width && touches(matte, width - 1, width, 0, chin) ? picture.width : 1e9,
    top: top === 0 && touches(matte, 0, width, 0, 1) ? 0 : -1e9,
  };
  const shape = headShape(points, frame, cut, picture);
  // A little background moves with the head, so that an edge found too far inside cuts nothing off. Made-up background
  // begins beyond it, because what is left of the person there would show where the head was.
  const edge = threshold(matte, 0.15);
  const wide = blur(grow(edge, CARRIED * WORK_IOD), 0.03 * WORK_IOD);
  const alpha = plane(width, height);
  for (let i = 0; i < alpha.data.length; i++) alpha.data[i] = smoothstep(0.02, 0.7, wide.data[i] as number);
  const hidden = hiddenOf(edge, movingPlane(shape, crop, width, height));
  const kinds = kindsOf(edge, hidden);
  const calm = calmOf(image, kinds);
  const smooth = smoothly(image, kinds, calm.means);
  const sources = complete(image, kinds);
  const copies = sources && trusted(image, { kinds, edge, sources, calm, scale });
  return { shape, box, ...enlarge(picture, box, crop, { smooth, copies, hidden, alpha }) };
}

/** Returns the background without structure of its own behind the person. */
function smoothly(image: RgbImage, kinds: Uint8Array, calm: Float32Array): RgbImage {
  const known = plane(image.width, image.height);
  const data = image.data.slice();
  // A little weight for all that is seen: where nothing else is, it is better than nothing.
  const weights = { [KIND.source]: 1, [KIND.context]: 0.03, [KIND.hidden]: 1, [KIND.ignored]: 0 };
  for (let i = 0; i < kinds.length; i++) {
    const kind = kinds[i] as keyof typeof weights;
    known.data[i] = weights[kind];
    if (kind === KIND.hidden) for (let c = i * 3; c < i * 3 + 3; c++) data[c] = calm[c] as number;
  }
  return pushPull({ ...image, data }, known);
}

/** Returns the copies of a completion as far as they are trusted and something around them tells what they should be. */
function trusted(
  image: RgbImage,
  {
    kinds,
    edge,
    sources,
    calm,
    scale,
  }: { kinds: Uint8Array; edge: Plane; sources: Int32Array; calm: Nearby; scale: number },
): Copies {
  const tone = fuse(image, kinds, sources);
  const share = trustIn(image, { sources, tone }, calm);
  const depth = distanceInside(edge, false);
  for (let i = 0; i < share.data.length; i++) {
    const unsure = smoothstep(UNSURE * WORK_IOD, DEPTH * WORK_IOD, depth.data[i] as number);
    share.data[i] = (share.data[i] as number) * (1 - unsure);
  }
  return copiesOf(sources, tone, share, scale);
}

/** Returns a mask of the picture at the places of a crop. */
function maskOfCrop(
  mask: Uint8Array,
  picture: { readonly width: number; readonly height: number },
  { scale, originX, originY }: CropTransform,
  { width, height }: { readonly width: number; readonly height: number },
): Uint8Array {
  const out = new Uint8Array(width * height);
  const whole = { width: picture.width, height: picture.height, data: mask };
  for (let i = 0; i < out.length; i++) {
    const x = originX + ((i % width) + 0.5) * scale;
    out[i] = sampleByte(whole, x, originY + (Math.floor(i / width) + 0.5) * scale);
  }
  return out;
}

/** Tells apart what of the background is to be made up and what it may be made of. */
function kindsOf(edge: Plane, hidden: Plane): Uint8Array {
  const { width, height } = edge;
  const near = grow(edge, FRINGE * WORK_IOD);
  const depth = distanceInside(edge, false);
  const out = new Uint8Array(near.data.length);
  for (let i = 0; i < out.length; i++) {
    // The outermost pixels may lie partly outside the picture.
    const outermost = i % width === width - 1 || i >= (height - 1) * width;
    if ((depth.data[i] as number) > DEPTH * WORK_IOD) out[i] = KIND.ignored;
    else if ((hidden.data[i] as number) > 0.01) out[i] = KIND.hidden;
    else if ((edge.data[i] as number) > 0.5) out[i] = KIND.ignored;
    else out[i] = (near.data[i] as number) > 0.5 || outermost ? KIND.context : KIND.source;
  }
  return out;
}

/**
 * Returns how far the background is to be made up. Where next to nothing moves it is never uncovered, and the less
 * moves, the less of it.
 */
function hiddenOf(edge: Plane, mobile: Plane): Plane {
  const far = blur(grow(edge, PLATE * WORK_IOD), 0.03 * WORK_IOD);
  const close = blur(grow(edge, CARRIED * WORK_IOD), 0.03 * WORK_IOD);
  const out = plane(edge.width, edge.height);
  for (let i = 0; i < out.data.length; i++) {
    const moves = mobile.data[i] as number;
    const least = close.data[i] as number;
    const wide = least + smoothstep(HEAD[0], HEAD[1], moves) * ((far.data[i] as number) - least);
    out.data[i] = wide * smoothstep(UNCOVERED[0], UNCOVERED[1], moves);
  }
  return out;
}

function touches(matte: Plane, x0: number, x1: number, y0: number, y1: number): boolean {
  let sum = 0;
  for (let y = y0; y < Math.min(matte.height, y1); y++) {
    for (let x = x0; x < x1; x++) sum += (matte.data[y * matte.width + x] as number) > 0.8 ? 1 : 0;
  }
  return sum > 0.4 * WORK_IOD;
}

function threshold(source: Plane, least: number): Plane {
  const out = plane(source.width, source.height);
  for (let i = 0; i < out.data.length; i++) out.data[i] = (source.data[i] as number) >= least ? 1 : 0;
  return out;
}

/** Returns how far each place moves with the head or the shoulders. */
function movingPlane(shape: HeadShape, crop: CropTransform, width: number, height: number): Plane {
  const moves = mobility(shape);
  const count = moves.length;
  const to = new Float32Array(count * 2);
  const from = new Float32Array(count * 2);
  for (let v = 0; v < count; v++) {
    to[v * 2] = ((shape.texture[v * 2] as number) - crop.originX) / crop.scale;
    to[v * 2 + 1] = ((shape.texture[v * 2 + 1] as number) - crop.originY) / crop.scale;
    from[v * 2] = moves[v] as number;
  }
  const out = plane(width, height);
  for (const triangles of [shape.surround, shape.skin, shape.eyes]) {
    scanTriangles(out, { to, from, triangles, scale: 1 }, (y, x0, x1, value, _, step) => {
      for (let x = x0, f = value; x < x1; x++, f += step) out.data[y * width + x] = f;
    });
  }
  // The mesh is open between the lips, but all of the face moves.
  fillPolygon(
    out,
    FACE_OVAL.flatMap((v) => [to[v * 2] as number, to[v * 2 + 1] as number]),
  );
  return out;
}
