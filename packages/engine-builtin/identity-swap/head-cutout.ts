import type { Picture } from '@semblance/engine-api/picture';
import { rgbToRegion } from '@semblance/media/yuv';
import type { PersonMask } from '@semblance/vision/person';
import { maskInPicture } from '@semblance/vision/person-mask';
import { type CropTransform, cropRgb, type RgbImage } from '@semblance/vision/picture';
import { pushPull } from '@semblance/vision/plane/fill';
import { blur, type Plane, plane, sample, smoothstep } from '@semblance/vision/plane/plane';
import { type FaceFrame, faceFrame } from '../animate/face-frame.ts';
import { guidedLine, personMatte } from '../animate/matte.ts';
import type { Planes } from '../animate/openings.ts';
import { planesOf } from '../animate/yuv.ts';
import { opponent } from '../swap/skin.ts';
import type { Colors } from '../video-swap/frame-part.ts';
import { headShare } from './head-share.ts';

/** Eye distance, in pixels, at which the head is separated from the rest of its picture. */
const WORK_IOD = 40;
/** The part of the picture around the eyes that can show the head, in eye distances. */
const REACH = { side: 3.6, up: 3.8, down: 4.8 } as const;
/** Alignment of the cut-out in pixels: {@link HeadPainter} takes whole blocks of it. */
const BLOCK = 16;
/** Width of the soft end where the border of the picture cuts the head, in eye distances. */
const BORDER = 0.08;
/** The same at the upper border: the head blends into the person's hair there. */
const CUT = 0.5;
/** Depth of the edge that the background tints, in eye distances. */
const TINTED = 0.05;
/** Blur of the edge, in pixels of the cut-out. */
const SOFT = 0.7;

/** A head with its hair and the beginning of its neck, cut out of a picture. */
export interface HeadCutout {
  readonly width: number;
  readonly height: number;
  /** Mesh points of the face, in pixels of the cut-out. */
  readonly points: Float32Array;
  /** Its colours; they continue beyond its edge. */
  readonly armless: Planes;
  /** Its opacity, alone in a list. */
  readonly alphas: readonly [Plane];
  /** Whether the upper border of the picture cuts the head. */
  readonly cutAbove: boolean;
}

/**
 * @param picture RGB, 8 bits
 * @param points of the face, in pixels of the picture
 * @param mask of the person in the picture
 */
export function cutOutHead(
  picture: Picture,
  points: Float32Array,
  mask: PersonMask,
  options: {
    /** Wanted eye distance in pixels. */
    readonly iod: number;
    readonly colors: Colors;
    /** Opacity of each pixel, 0–255, when the picture itself is a cut-out. */
    readonly own?: Uint8Array;
    readonly checkpoint: () => void;
  },
): HeadCutout {
  const { colors, own, checkpoint } = options;
  const found = faceFrame(points);
  const { iod, origin } = found;
  const left = Math.max(0, Math.floor(origin[0] - REACH.side * iod));
  const top = Math.max(0, Math.floor(origin[1] - REACH.up * iod));
  const right = Math.min(picture.width, Math.ceil(origin[0] + REACH.side * iod));
  const bottom = Math.min(picture.height, Math.ceil(origin[1] + REACH.down * iod));
  const crop: CropTransform = {
    // A smaller head is enlarged, so that its edge is as fine as the frame.
    scale: iod / options.iod,
    angle: 0,
    originX: left,
    originY: top,
  };
  const blocks = (length: number): number => BLOCK * Math.ceil(length / crop.scale / BLOCK);
  const [width, height] = [blocks(right - left), blocks(bottom - top)];
  const image = cropRgb(picture, crop, width, height);
  checkpoint();
  const moved = placedIn(points, crop);
  const frame = faceFrame(moved);
  const alpha = own ? alphaOf(own, picture, crop, width, height) : undefined;
  const { matte, share } = separated(
    image,
    { points: moved, frame },
    { alpha, mask: movedMask(mask, crop) },
    checkpoint,
  );
  const out = plane(width, height);
  const bounds = [(right - left) / crop.scale, (bottom - top) / crop.scale] as const;
  const soft = BORDER * frame.iod;
  const cutAbove = top === 0 && isCovered(matte, frame);
  const above = cutAbove ? CUT * frame.iod : soft;
  for (let y = 0; y < height; y++) {
    // Where nothing of the picture lies beyond, its border ends the head.
    const down = smoothstep(0, soft, bounds[1] - y - 0.5) * (top > 0 ? 1 : smoothstep(0, above, y + 0.5));
    for (let x = 0; x < width; x++) {
      const i = y * width + x;
      const edge = smoothstep(0, soft, Math.min(x + 0.5, bounds[0] - x - 0.5));
      out.data[i] = (matte.data[i] as number) * (share.data[i] as number) * down * edge;
    }
  }
  checkpoint();
  const toPlanes = (known: Plane): Planes => {
    const filled = pushPull(image, known);
    checkpoint();
    const data = new Uint8Array((width * height * 3) / 2);
    rgbToRegion({ width, height, data }, { x: 0, y: 0, width, height }, filled.data, colors);
    return planesOf(data, width, height);
  };
  const { y } = toPlanes(within(matte, 0.9, 0.995));
  // The background tints the edge deeper than it lightens or darkens it.
  const { u, v } = toPlanes(within(blur(matte, TINTED * frame.iod), 0.97, 0.995));
  return { width, height, points: moved, armless: { y, u, v }, alphas: [blur(out, SOFT)], cutAbove };
}

/** Returns whether the person covers the first row above the face. */
function isCovered(matte: Plane, { origin, iod }: FaceFrame): boolean {
  const row = Math.min(matte.height - 1, Math.ceil(BORDER * iod));
  let sum = 0;
  const [from, to] = [
    Math.max(0, Math.round(origin[0] - iod)),
    Math.min(matte.width, Math.round(origin[0] + iod)),
  ];
  for (let x = from; x < to; x++) sum += matte.data[row * matte.width + x] as number;
  return sum > 0.25 * (to - from);
}

function within(matte: Plane, low: number, high: number): Plane {
  return { ...matte, data: matte.data.map((value) => smoothstep(low, high, value)) };
}

function placedIn(points: Float32Array, { scale, originX, originY }: CropTransform): Float32Array {
  return points.map((value, i) => (value - (i % 3 === 0 ? originX : i % 3 === 1 ? originY : 0)) / scale);
}

function movedMask(mask: PersonMask, { scale, originX, originY }: CropTransform): PersonMask {
  const { x, y, size, angle } = mask.region;
  return {
    ...mask,
    region: { x: (x - originX) / scale, y: (y - originY) / scale, size: size / scale, angle },
  };
}

function alphaOf(
  own: Uint8Array,
  { width, height }: Picture,
  crop: CropTransform,
  w: number,
  h: number,
): Plane {
  const { data } = cropRgb({ width, height, channels: 1, data: own }, crop, w, h);
  return {
    width: w,
    height: h,
    data: Float32Array.from({ length: w * h }, (_, i) => (data[i * 3] as number) / 255),
  };
}

/** Returns where the person is in a picture, and how much of it belongs to the head; both 0–1, at full size. */
function separated(
  image: RgbImage,
  { points, frame }: { points: Float32Array; frame: FaceFrame },
  { alpha, mask }: { alpha: Plane | undefined; mask: PersonMask },
  checkpoint: () => void,
): { matte: Plane; share: Plane } {
  const scale = Math.max(1, frame.iod / WORK_IOD);
  const { width, height } = image;
  const [w, h] = [Math.max(2, Math.round(width / scale)), Math.max(2, Math.round(height / scale))];
  const pixels = { width, height, channels: 3, data: Uint8Array.from(image.data) } as const;
  const crop: CropTransform = { scale, angle: 0, originX: 0, originY: 0 };
  const small = cropRgb(pixels, crop, w, h);
  const moved = placedIn(points, crop);
  const place = { points: moved, frame: faceFrame(moved) };
  checkpoint();
  const seen = maskInPicture(movedMask(mask, crop), w, h);
  const coarse = alpha ? sampled(alpha, w, h) : personMatte(small, place, seen);
  checkpoint();
  const share = headShare(small, coarse, place);
  return {
    matte: alpha ?? refined(image, small, coarse, place.frame.iod),
    share: sampled(share, width, height),
  };
}

/** Moves the edge of a coarse matte to the edge of the full picture. */
function refined(image: RgbImage, small: RgbImage, coarse: Plane, iod: number): Plane {
  const weights = contrastOf(small, coarse);
  const { slope, offset } = guidedLine(projected(small, weights), coarse, Math.max(1.5, 0.05 * iod), 30);
  const guide = projected(image, weights);
  const out = plane(image.width, image.height);
  for (let y = 0; y < out.height; y++) {
    for (let x = 0; x < out.width; x++) {
      const i = y * out.width + x;
      const [u, v] = [((x + 0.5) * small.width) / out.width, ((y + 0.5) * small.height) / out.height];
      const value = sample(slope, u, v) * (guide.data[i] as number) + sample(offset, u, v);
      out.data[i] = smoothstep(0.15, 0.85, value);
    }
  }
  return out;
}

/**
 * Returns the weights of brightness and colour that tell the person from the background best near its edge
 * (Fisher's linear discriminant, without correlations).
 */
function contrastOf(image: RgbImage, matte: Plane): readonly [number, number, number] {
  const channels = channelsOf(image);
  const near = blur(matte, 3);
  const weights = channels.map(({ data }) => {
    const sums = [0, 1].map(() => ({ n: 1e-6, sum: 0, squares: 0 }));
    for (let i = 0; i < data.length; i++) {
      const soft = near.data[i] as number;
      if (soft < 0.02 || soft > 0.98) continue;
      const side = sums[(matte.data[i] as number) > 0.5 ? 1 : 0] as (typeof sums)[number];
      side.n++;
      side.sum += data[i] as number;
      side.squares += (data[i] as number) ** 2;
    }
    const [away, person] = sums.map(({ n, sum, squares }) => ({
      mean: sum / n,
      variance: squares / n - (sum / n) ** 2,
    })) as [{ mean: number; variance: number }, { mean: number; variance: number }];
    return (person.mean - away.mean) / (person.variance + away.variance + 50);
  }) as [number, number, number];
  const norm = Math.hypot(...weights) || 1;
  return [weights[0] / norm, weights[1] / norm, weights[2] / norm];
}

function projected(image: RgbImage, weights: readonly [number, number, number]): Plane {
  const channels = channelsOf(image);
  const out = plane(image.width, image.height);
  for (let i = 0; i < out.data.length; i++) {
    for (let k = 0; k < 3; k++)
      out.data[i] =
        (out.data[i] as number) + (weights[k] as number) * ((channels[k] as Plane).data[i] as number);
  }
  return out;
}

function channelsOf(image: RgbImage): [Plane, Plane, Plane] {
  const { y, cb, cr } = opponent(image);
  return [y, cb, cr];
}

function sampled(from: Plane, width: number, height: number): Plane {
  const out = plane(width, height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      out.data[y * width + x] = sample(
        from,
        ((x + 0.5) * from.width) / width,
        ((y + 0.5) * from.height) / height,
      );
    }
  }
  return out;
}
