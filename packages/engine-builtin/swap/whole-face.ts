import type { RgbImage } from '@semblance/vision/picture';
import { fillHidden, pushPull } from '@semblance/vision/plane/fill';
import { grow, type Plane, plane } from '@semblance/vision/plane/plane';
import { findCast, takeOffCast } from './colour-cast.ts';
import { type FaceZones, plainSkin } from './face-zones.ts';
import { findHidden } from './hidden.ts';
import { mirrorMap } from './mirror.ts';
import { mirrorImage, showOtherSide } from './mirror-image.ts';

/** From which `visible` on a pixel shows the face and nothing else. */
const SEEN = 0.97;
/** The outermost part of a face shows what is behind it as well; as a share of its width. */
const RIM = 0.02;
/** By how much the zone of the lips is wider than they are. */
const LIPS_GROWN = 0.02;

/** A face cut out of its picture. */
export interface CutFace {
  readonly image: RgbImage;
  /** The same on a coarser grid, on which the rest is given; the same image if it is no finer than that. */
  readonly coarse: RgbImage;
  /** Mesh in pixels of `coarse`, stride 3. */
  readonly points: Float32Array;
  readonly zones: FaceZones;
  /** 1 where the face itself is seen, 0 where something in front of it is. */
  readonly visible: Plane;
  /** Pixels of `coarse` per pixel of `image`. */
  readonly scale: number;
}

/**
 * Makes both images of a face show it as it is by itself: without the coloured light that falls on a part of it, what
 * strands of hair and deep shadows hide taken from its other side, and the rest of what is hidden filled in smoothly.
 * They are changed in place: a large face takes a hundred megabytes.
 * @param faceWidth in pixels of `coarse`
 * @returns where they show the face, or its other side in its place
 */
export function makeWhole(cut: CutFace, faceWidth: number): Plane {
  const { coarse, zones, scale } = cut;
  const { width, height } = cut.visible;
  const both = (change: (image: RgbImage, to: number) => void): void => {
    change(coarse, 1);
    if (cut.image !== coarse) change(cut.image, scale);
  };
  const plain = plainSkin(zones);
  const deep = grow(zones.face, -RIM * faceWidth);
  const skin = plane(width, height);
  const lips = plane(width, height);
  const red = grow(zones.lips, -LIPS_GROWN * faceWidth);
  for (let i = 0; i < skin.data.length; i++) {
    if ((cut.visible.data[i] as number) < SEEN || !deep.data[i] || zones.eyeOpenings.data[i]) continue;
    if (!zones.lips.data[i]) skin.data[i] = 1;
    else if (red.data[i] && !zones.mouth.data[i]) lips.data[i] = 1;
  }
  const cast = findCast(coarse, { skin, lips }, faceWidth);
  if (cast) both((image, to) => takeOffCast(image, cast, to));

  const map = mirrorMap(cut.points, cut.visible);
  const share = findHidden(coarse, { zones, plain, skin, visible: cut.visible, mirror: map }, faceWidth);
  const visible = plane(width, height);
  const known = plane(width, height);
  let anyHidden = false;
  for (let i = 0; i < known.data.length; i++) {
    const mirrored = share.data[i] as number;
    if (mirrored > 0) anyHidden = true;
    else known.data[i] = (skin.data[i] as number) * (plain.data[i] as number);
    visible.data[i] = Math.max(cut.visible.data[i] as number, mirrored);
  }
  const smooth = pushPull(coarse, known);
  if (anyHidden) {
    const other = mirrorImage(share, map, smooth, faceWidth);
    both((image, to) => showOtherSide(image, other, to));
  }
  both((image, to) => fillHidden(image, smooth, visible, to));
  return visible;
}
