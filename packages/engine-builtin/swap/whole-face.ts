import type { RgbImage } from '@semblance/vision/picture';
import { fillHidden, pushPull } from '@semblance/vision/plane/fill';
import { grow, type Plane, plane } from '@semblance/vision/plane/plane';
import { findCast, takeOffCast } from './colour-cast.ts';
import { type FaceZones, plainSkin } from './face-zones.ts';
import { findHidden } from './hidden.ts';
import { mirrorMap } from './mirror.ts';
import { mirrorImage, showOtherSide } from './mirror-image.ts';

/** Value of `visible` from which a pixel shows only the face. */
const SEEN = 0.97;
/** Width of the outermost part of a face, which also shows the background, as a share of the face width. */
const RIM = 0.02;
/** Width that the zone of the lips adds to the lips, as a share of the face width. */
const LIPS_GROWN = 0.02;

/** A face cut out of its picture. */
export interface CutFace {
  readonly image: RgbImage;
  /** The same on a coarser grid, on which the other fields are given; the same image if it is no finer. */
  readonly coarse: RgbImage;
  /** Mesh in pixels of `coarse`, stride 3. */
  readonly points: Float32Array;
  readonly zones: FaceZones;
  /** 1 where the face itself is visible, 0 where something is in front of it. */
  readonly visible: Plane;
  /** Pixels of `coarse` per pixel of `image`. */
  readonly scale: number;
}

/**
 * Makes both images show the face by itself, in place. Coloured light on a part of it is removed, places under
 * strands of hair and in deep shadows are taken from the other side, and other hidden places are filled in
 * smoothly. The images are changed in place, because a large face takes a hundred megabytes.
 * @param faceWidth in pixels of `coarse`
 * @returns where they show the face, or its other side in its place, and the share of it in coloured light
 */
export function makeWhole(cut: CutFace, faceWidth: number): { visible: Plane; colouredLight: number } {
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
  return { visible, colouredLight: cast?.share ?? 0 };
}
