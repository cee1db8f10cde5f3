import type { RgbImage } from '../vision/picture.ts';
import { findCast, withoutCast } from './colour-cast.ts';
import { type FaceZones, plainSkin } from './face-zones.ts';
import { fillHidden, pushPull } from './fill.ts';
import { findHidden } from './hidden.ts';
import { mirrorMap } from './mirror.ts';
import { mirrorImage, withMirrorImage } from './mirror-image.ts';
import { grow, type Plane, plane } from './plane.ts';

/** From which `visible` on a pixel shows the face and nothing else. */
const SEEN = 0.97;
/** The outermost part of a face shows what is behind it as well; as a share of its width. */
const RIM = 0.02;
/** By how much the zone of the lips is wider than they are. */
const LIPS_GROWN = 0.02;

/** A face cut out of its picture. */
export interface CutFace {
  readonly image: RgbImage;
  /** The same on a coarser grid, on which the rest is given. */
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
 * A face as it is by itself: without the coloured light that falls on a part of it, what strands of hair and deep
 * shadows hide taken from its other side, and the rest of what is hidden filled in smoothly. `visible` is 1 also where
 * the other side stands for it.
 * @param faceWidth in pixels of `coarse`
 */
export function wholeFace(
  cut: CutFace,
  faceWidth: number,
): { image: RgbImage; coarse: RgbImage; visible: Plane } {
  const { zones, scale } = cut;
  const { width, height } = cut.visible;
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
  const cast = findCast(cut.coarse, { skin, lips }, faceWidth);
  const even = (image: RgbImage, to: number): RgbImage => (cast ? withoutCast(image, cast, to) : image);
  const coarse = even(cut.coarse, 1);

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
  const other = anyHidden ? mirrorImage(share, map, smooth, faceWidth) : undefined;
  const whole = (image: RgbImage, to: number): RgbImage =>
    fillHidden(other ? withMirrorImage(image, other, to) : image, smooth, visible, to);
  const wholeCoarse = whole(coarse, 1);
  // A small face is no finer than the grid on which it is analysed.
  const image = cut.image === cut.coarse ? wholeCoarse : whole(even(cut.image, scale), scale);
  return { image, coarse: wholeCoarse, visible };
}
