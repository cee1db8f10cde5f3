import type { RgbImage } from '@semblance/vision/picture';
import { blur, grow, type Plane, plane, sample, smoothstep } from '@semblance/vision/plane/plane';
import type { WarpMap } from '@semblance/vision/plane/warp-map';
import type { FaceZones } from './face-zones.ts';
import { luma } from './light.ts';

/** Width of the neighbourhood over which brightness is averaged, as a share of the face width. */
const AROUND = 0.03;
/** How much darker than the mirrored place skin must be to count as hidden, as a natural logarithm. */
const DARKER = 0.45;
/**
 * Smallest area that counts, as a share of the squared face width. A smaller one is a mole or the shadow of a
 * feature.
 */
const LEAST_AREA = 0.004;
/** Width of the margin around a hidden area that belongs to it, as a share of the face width. */
const MARGIN = 0.02;
/** Least distance of the mirrored place from the edge of the visible face, as a share of the face width. */
const WITHIN = 0.03;
/** An eye and its brow are hidden when more than this share of the skin around them is, and visible otherwise. */
const EYE_HIDDEN = 0.3;
const EYE_SHOWN = 0.12;
const AROUND_EYE = 0.07;
/** Added to brightness, so that dark pixels have no extreme ratios. */
const DARK = 8;

export interface HiddenParts {
  readonly zones: FaceZones;
  /** Plain skin, without the features and their surroundings. */
  readonly plain: Plane;
  /** 1 on visible skin, including lids and nose. */
  readonly skin: Plane;
  /** From 0, where something was found in front of the face, to 1. */
  readonly visible: Plane;
  /** For each place, the place that the mirror image of the face shows there. */
  readonly mirror: WarpMap;
}

/**
 * Returns the share of each pixel that the other side of the face shows better: a place much darker than its mirror
 * image lies under strands of hair or in a deep shadow. An eye is decided as a whole with its brow, because two
 * halves of different eyes make none.
 */
export function findHidden(image: RgbImage, parts: HiddenParts, faceWidth: number): Plane {
  const { zones, visible, mirror } = parts;
  const { width, height } = visible;
  const lighter = lighterThanMirrored(image, parts, AROUND * faceWidth);
  const within = grow(zones.face, -WITHIN * faceWidth);
  const dark = plane(width, height);
  for (let i = 0; i < dark.data.length; i++) {
    if ((lighter.data[i] as number) > -DARKER || (visible.data[i] as number) < 0.5) continue;
    if (!mirror.covered.data[i] || zones.nostrils.data[i] || zones.lips.data[i]) continue;
    const x = mirror.x.data[i] as number;
    const y = mirror.y.data[i] as number;
    dark.data[i] = sample(visible, x, y) > 0.95 && sample(within, x, y) > 0.95 ? 1 : 0;
  }
  const hidden = largeParts(dark, LEAST_AREA * faceWidth * faceWidth);
  if (!hidden.data.includes(1)) return hidden;
  settleEyes(hidden, parts, faceWidth);
  return blur(grow(hidden, MARGIN * faceWidth), 0.6 * MARGIN * faceWidth);
}

/** Returns how much brighter the mirrored place is, averaged over the neighbourhood, as a natural logarithm. */
function lighterThanMirrored(image: RgbImage, { skin, mirror }: HiddenParts, sigma: number): Plane {
  const { width, height } = skin;
  const level = plane(width, height);
  const { data } = image;
  for (let i = 0, o = 0; i < level.data.length; i++, o += 3) {
    if (!skin.data[i]) continue;
    level.data[i] = Math.log(luma(data[o] as number, data[o + 1] as number, data[o + 2] as number) + DARK);
  }
  const weight = blur(skin, sigma);
  const around = blur(level, sigma);
  const known = plane(width, height);
  for (let i = 0; i < known.data.length; i++) {
    const w = weight.data[i] as number;
    known.data[i] = smoothstep(0.1, 0.4, w);
    around.data[i] = w > 0.02 ? (around.data[i] as number) / w : 0;
  }
  const difference = plane(width, height);
  const sure = plane(width, height);
  for (let i = 0; i < difference.data.length; i++) {
    if (!mirror.covered.data[i] || !known.data[i]) continue;
    const x = mirror.x.data[i] as number;
    const y = mirror.y.data[i] as number;
    const both = (known.data[i] as number) * smoothstep(0.8, 1, sample(known, x, y));
    sure.data[i] = both;
    if (both > 0) difference.data[i] = both * ((around.data[i] as number) - sample(around, x, y));
  }
  // Extends the difference into unknown places, above all the features.
  const wide = blur(difference, 2 * sigma);
  const wideSure = blur(sure, 2 * sigma);
  const out = plane(width, height);
  for (let i = 0; i < out.data.length; i++) {
    const guess = (wide.data[i] as number) / ((wideSure.data[i] as number) + 0.02);
    out.data[i] = (difference.data[i] as number) + (1 - (sure.data[i] as number)) * guess;
  }
  return blur(out, 0.5 * sigma);
}

/**
 * Hides an eye and its brow completely when the skin around them is hidden and the skin around the other eye is
 * not; otherwise shows them completely.
 */
function settleEyes(hidden: Plane, { zones, plain, mirror }: HiddenParts, faceWidth: number): void {
  const { width, height } = hidden;
  const features = plane(width, height);
  for (let i = 0; i < features.data.length; i++)
    features.data[i] = Math.max(zones.eyes.data[i] as number, zones.brows.data[i] as number);
  const ring = grow(features, AROUND_EYE * faceWidth);
  const nearest = (i: number): 0 | 1 => {
    const [first, second] = zones.eyeCentres.map((eye) =>
      Math.hypot((i % width) - eye.x, Math.floor(i / width) - eye.y),
    ) as [number, number];
    return first < second ? 0 : 1;
  };
  const dark: [number, number] = [0, 0];
  const all: [number, number] = [0, 0];
  for (let i = 0; i < ring.data.length; i++) {
    if (!ring.data[i] || !plain.data[i]) continue;
    const side = nearest(i);
    dark[side] += hidden.data[i] as number;
    all[side]++;
  }
  const [first, second] = [dark[0] / Math.max(1, all[0]), dark[1] / Math.max(1, all[1])];
  const closing = [
    first > EYE_HIDDEN && second < EYE_SHOWN,
    second > EYE_HIDDEN && first < EYE_SHOWN,
  ] as const;
  const whole = grow(features, 0.03 * faceWidth);
  for (let i = 0; i < whole.data.length; i++) {
    if (!whole.data[i] || !mirror.covered.data[i]) continue;
    if (closing[nearest(i)]) hidden.data[i] = 1;
    else if (features.data[i]) hidden.data[i] = 0;
  }
}

/** Returns the connected parts of a 0/1 mask that have at least an area, in pixels. */
function largeParts(mask: Plane, area: number): Plane {
  const { width, height, data } = mask;
  const out = plane(width, height);
  const seen = new Uint8Array(data.length);
  for (let start = 0; start < data.length; start++) {
    if (!data[start] || seen[start]) continue;
    const part = [start];
    seen[start] = 1;
    // The list grows during the iteration.
    for (const i of part) {
      const x = i % width;
      for (const j of [x > 0 ? i - 1 : -1, x + 1 < width ? i + 1 : -1, i - width, i + width]) {
        if (j < 0 || j >= data.length || !data[j] || seen[j]) continue;
        seen[j] = 1;
        part.push(j);
      }
    }
    if (part.length >= area) for (const i of part) out.data[i] = 1;
  }
  return out;
}
