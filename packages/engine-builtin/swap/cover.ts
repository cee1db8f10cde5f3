import type { RgbImage } from '@semblance/vision/picture';
import { blur, distanceInside, grow, type Plane, plane, smoothstep } from '@semblance/vision/plane/plane';
import { select } from '@semblance/vision/plane/select';
import { openSpots } from '@semblance/vision/plane/spots';
import { type FaceZones, plainSkin } from './face-zones.ts';
import { closedContour, edgeStrength } from './rim.ts';
import { skinDistance } from './skin.ts';

/** Thresholds of unlikeness to skin: `weak` counts only beside something `clear`. */
export interface CoverThresholds {
  readonly weak: number;
  readonly clear: number;
  /** Width of the margin around a covered area that belongs to it, as a share of the face width. */
  readonly margin: number;
}

/**
 * Covers that are found by mistake cost likeness: the source is filled in, or the target is kept. Hair carried over
 * with a source is seen at once, so the source needs a little less evidence.
 */
export const SOURCE_COVER: CoverThresholds = { weak: 1.3, clear: 2, margin: 0.016 };
export const TARGET_COVER: CoverThresholds = { weak: 1.45, clear: 2, margin: 0.01 };
/** Threshold for the frames of glasses, which are thin and often half transparent. */
const FRAME = 0.95;
const CLEAR_FRAME = 1.5;
/**
 * Unlikeness up to which a pixel is surely skin, its brightness relative to skin from which it is, and its distance
 * from other pixels.
 */
const CLEAN = 1.15;
const CLEAN_SHADE = 0.8;
const CLEAN_MARGIN = 0.02;
/** Distance beside a brow to which hair is followed, as a share of the face width, and its darkness. */
const BROW_REACH = 0.06;
const BROW_SHADE = 0.55;

/** Objects in front of one face. */
export interface Cover {
  /** Share of each pixel that hair, a hand, a frame or the like covers. */
  readonly front: Plane;
  /** Share of each pixel that the frame of glasses alone covers. */
  readonly frame: Plane;
  /** 1 on what may be skin by its colour and brightness; brighter pixels may be highlights. */
  readonly skinlike: Plane;
  /** 1 on skin that surely nothing covers, at a distance from everything unlike skin. */
  readonly clean: Plane;
  readonly hasGlasses: boolean;
}

/**
 * Finds objects in front of a face without a model of the objects. An object is unlike this face's skin, is
 * connected (hysteresis thresholding, Canny 1986) and enters from the outline, as hair, hands and the temples of
 * glasses do. Marks inside the face (moles, wrinkles, the shadow of the nose) belong to the face.
 * @param faceWidth width of the face in pixels of the image
 */
export function findCover(
  image: RgbImage,
  zones: FaceZones,
  faceWidth: number,
  thresholds: CoverThresholds,
): Cover {
  const { weak, clear, margin } = thresholds;
  const { width, height } = image;
  const skin = plainSkin(zones);
  const inside = distanceInside(zones.face);
  // The judged area reaches a little beyond the outline, so that objects that enter there do not end at the edge.
  const judged = plane(width, height);
  const wider = grow(zones.face, 0.06 * faceWidth);
  const features = plane(width, height);
  for (let i = 0; i < judged.data.length; i++) {
    features.data[i] = (zones.face.data[i] as number) - (skin.data[i] as number);
    judged.data[i] = (wider.data[i] as number) - (features.data[i] as number);
  }
  const besideBrows = plane(width, height);
  const known = plane(width, height);
  for (let i = 0; i < known.data.length; i++) {
    besideBrows.data[i] = (zones.brows.data[i] as number) - (zones.browShapes.data[i] as number);
    known.data[i] = Math.max(judged.data[i] as number, besideBrows.data[i] as number);
  }
  const likeness = skinDistance(image, skin, known);
  const distance = calibrated(likeness.distance, skin, inside, faceWidth);
  const hasGlasses = wearsGlasses(zones, distance, skin);
  const plain = { ...distance, data: distance.data.slice() };
  for (let i = 0; i < distance.data.length; i++) {
    // Hair is dark at any exposure, while its colour says little in a dark picture.
    const dark = 1.3 * clear * (1 - smoothstep(0.35, 0.65, likeness.shade.data[i] as number));
    if (judged.data[i]) distance.data[i] = Math.max(distance.data[i] as number, dark);
  }
  const lift = evidenceNeeded(likeness.shade, zones, inside, faceWidth);
  const unlike = plane(width, height);
  for (let i = 0; i < unlike.data.length; i++) {
    // Frames touch wrinkles, so with glasses other objects are searched outside the area of the glasses only.
    const looked = judged.data[i] === 1 && !(hasGlasses && zones.glasses.data[i] === 1);
    unlike.data[i] = looked
      ? smoothstep(weak - 0.15, weak + 0.15, (distance.data[i] as number) - (lift.data[i] as number))
      : 0;
  }
  const marks = openSpots(unlike, 0.008 * faceWidth);
  const front = hysteresis(marks, (i) => {
    return (
      (distance.data[i] as number) - (lift.data[i] as number) > clear &&
      (inside.data[i] as number) < 0.08 * faceWidth
    );
  });
  // Pixels as dark as hair, beside a brow that hair reaches, belong to that hair. Otherwise the brow would be
  // carried over with it.
  const reached = grow(front, BROW_REACH * faceWidth);
  for (let i = 0; i < front.data.length; i++) {
    const dark = besideBrows.data[i] && (likeness.shade.data[i] as number) < BROW_SHADE;
    if (dark && reached.data[i]) front.data[i] = 1;
  }
  const soft = blur(grow(front, margin * faceWidth), 0.01 * faceWidth);
  const frame = plane(width, height);
  if (hasGlasses) {
    frame.data.set(findFrame(image, zones, { distance: plain, skin }, faceWidth).data);
  }
  const clean = plane(width, height);
  const skinlike = plane(width, height);
  for (let i = 0; i < clean.data.length; i++) {
    const like = (plain.data[i] as number) < CLEAN && (likeness.shade.data[i] as number) > CLEAN_SHADE;
    skinlike.data[i] = like || (likeness.shade.data[i] as number) > 1 ? 1 : 0;
    clean.data[i] = like && skin.data[i] === 1 && (soft.data[i] as number) < 0.02 ? 1 : 0;
  }
  return { front: soft, frame, skinlike, clean: grow(clean, -CLEAN_MARGIN * faceWidth), hasGlasses };
}

/**
 * Returns how much more unlike skin a pixel must be, growing with its depth inside the face. In the middle of a
 * face, an object is most often hair and much darker than skin; brighter or coloured areas there are light.
 */
function evidenceNeeded(shade: Plane, zones: FaceZones, inside: Plane, faceWidth: number): Plane {
  const out = plane(shade.width, shade.height);
  const eyes = blur(grow(zones.eyes, 0.04 * faceWidth), 0.02 * faceWidth);
  for (let i = 0; i < out.data.length; i++) {
    const depth = (inside.data[i] as number) / faceWidth;
    const dark = 1 - smoothstep(0.4, 0.65, shade.data[i] as number);
    out.data[i] =
      (1 - dark) * 3 * smoothstep(0.03, 0.12, depth) +
      dark * 0.5 * smoothstep(0.05, 0.25, depth) +
      (eyes.data[i] as number);
  }
  return out;
}

/**
 * Normalises the unlikeness by that of the face itself, because a face in patchy light is unlike itself in many
 * places.
 */
function calibrated(distance: Plane, skin: Plane, inside: Plane, faceWidth: number): Plane {
  const found = new Float32Array(Math.ceil(skin.data.length / 3));
  let count = 0;
  for (let i = 0; i < skin.data.length; i += 3) {
    if (skin.data[i] && (inside.data[i] as number) > 0.15 * faceWidth)
      found[count++] = distance.data[i] as number;
  }
  const usual = select(found.subarray(0, count), Math.floor(count * 0.72));
  const scale = 1 / Math.min(1.5, Math.max(1, usual / 0.75));
  const out = plane(distance.width, distance.height);
  for (let i = 0; i < out.data.length; i++) out.data[i] = (distance.data[i] as number) * scale;
  return out;
}

/**
 * Finds the frame of a pair of glasses: a band along the rim of each lens, and pixels unlike skin at the nasal root
 * and the temples.
 */
function findFrame(
  image: RgbImage,
  zones: FaceZones,
  known: { distance: Plane; skin: Plane },
  faceWidth: number,
): Plane {
  const { width, height } = image;
  const edges = edgeStrength(image, 0.006 * faceWidth);
  const band = plane(width, height);
  for (const eye of zones.eyeCentres) {
    const rim = closedContour(
      edges,
      { x: eye.x, y: eye.y + 0.045 * faceWidth },
      { least: 0.1 * faceWidth, most: 0.19 * faceWidth, stretch: 1.15 },
    );
    drawLine(band, rim, 0.018 * faceWidth);
  }
  const near = grow(band, 0.04 * faceWidth);
  const openings = grow(zones.eyeOpenings, 0.015 * faceWidth);
  const out = plane(width, height);
  for (let i = 0; i < out.data.length; i++) {
    const crossing =
      (zones.noseRoot.data[i] as number) +
      (zones.rightTemple.data[i] as number) +
      (zones.leftTemple.data[i] as number);
    const unlike =
      (known.distance.data[i] as number) > (crossing > 0 ? FRAME : CLEAR_FRAME) &&
      (crossing > 0 || near.data[i] === 1);
    out.data[i] = openings.data[i] === 0 && (band.data[i] === 1 || unlike) ? 1 : 0;
  }
  return blur(grow(out, 0.008 * faceWidth), 0.008 * faceWidth);
}

/** Marks all pixels within `radius` of a closed line. */
function drawLine(target: Plane, line: readonly number[], radius: number): void {
  const { width, height, data } = target;
  for (let k = 0; k < line.length; k += 2) {
    const ax = line[k] as number;
    const ay = line[k + 1] as number;
    const bx = line[(k + 2) % line.length] as number;
    const by = line[(k + 3) % line.length] as number;
    const length = Math.max(1, Math.ceil(Math.hypot(bx - ax, by - ay)));
    for (let s = 0; s < length; s++) {
      const cx = ax + ((bx - ax) * s) / length;
      const cy = ay + ((by - ay) * s) / length;
      for (let y = Math.max(0, Math.floor(cy - radius)); y <= Math.min(height - 1, cy + radius); y++) {
        for (let x = Math.max(0, Math.floor(cx - radius)); x <= Math.min(width - 1, cx + radius); x++) {
          if (Math.hypot(x + 0.5 - cx, y + 0.5 - cy) <= radius) data[y * width + x] = 1;
        }
      }
    }
  }
}

/** Returns the connected parts of a mask (≥ 0.5) that contain at least one seed. */
export function hysteresis(mask: Plane, seed: (index: number) => boolean): Plane {
  const { width, height, data } = mask;
  const out = plane(width, height);
  const stack: number[] = [];
  for (let i = 0; i < data.length; i++) {
    if ((data[i] as number) >= 0.5 && seed(i)) {
      out.data[i] = 1;
      stack.push(i);
    }
  }
  while (stack.length > 0) {
    const i = stack.pop() as number;
    const x = i % width;
    const left = x > 0 ? i - 1 : -1;
    const right = x + 1 < width ? i + 1 : -1;
    const down = i + width < data.length ? i + width : -1;
    for (const j of [left, right, i - width, down]) {
      if (j < 0 || out.data[j] === 1 || (data[j] as number) < 0.5) continue;
      out.data[j] = 1;
      stack.push(j);
    }
  }
  return out;
}

/**
 * Returns whether the face wears glasses. A frame crosses the nasal root and the temples, so both are more unlike
 * skin than the rest.
 */
export function wearsGlasses(zones: FaceZones, distance: Plane, skin: Plane): boolean {
  const share = (zone: Plane): number => {
    let count = 0;
    let unlike = 0;
    for (let i = 0; i < zone.data.length; i++) {
      if (!zone.data[i] || !skin.data[i]) continue;
      count++;
      if ((distance.data[i] as number) > FRAME) unlike++;
    }
    return count > 0 ? unlike / count : 0;
  };
  const bridge = share(zones.noseRoot);
  const temples = [share(zones.rightTemple), share(zones.leftTemple)] as const;
  // Noise, shadows and cracked paint are unlike skin all over a face; a frame is unlike skin only where it lies.
  const usual = share(skin);
  return bridge > Math.max(0.12, 1.6 * usual) && Math.min(...temples) > 0.08 && Math.max(...temples) > 0.15;
}
