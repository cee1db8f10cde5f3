import type { Picture } from '@semblance/engine-api/picture';
import { compose } from '@semblance/engine-builtin/internal/swap/compose';
import { takeJaw } from '@semblance/engine-builtin/internal/swap/picture-jaw';
import { calmRedEyes } from '@semblance/engine-builtin/internal/swap/red-eyes';
import { mixShape } from '@semblance/engine-builtin/internal/swap/shape';
import type { ShownFeatures } from '@semblance/engine-builtin/internal/swap/shown-features';
import type { SwapPlan } from '@semblance/engine-builtin/internal/swap/swap-plan';
import { drawnWidth, type Enlarged, enlarged } from '@semblance/engine-builtin/swap/small-face';
import { prepareSource, type SourceFace } from '@semblance/engine-builtin/swap/source-face';
import { planSwap, swapFace } from '@semblance/engine-builtin/swap/swap-face';
import type { FaceFinder } from '@semblance/vision/face-finder';
import { cropsOf, type Face } from '@semblance/vision/face-mesh';
import { gazeOf } from '@semblance/vision/gaze';
import { type Plane, plane, sample } from '@semblance/vision/plane/plane';
import type { Case } from './case.ts';

/** A picture, and one face of it. */
export interface Seen {
  readonly picture: Picture;
  readonly face: Face;
}

/** A swap, and the pictures in which the same place of the face lies at the same pixel. */
export interface DrawnSwap {
  readonly after: Picture;
  /** The target whose features, folds and jaw have moved as in {@link after}, with nothing else changed. */
  readonly moved: Picture;
  /** The swap with the target's own jaw, for comparison with the target and with swaps by other sources. */
  readonly still: Picture;
  /** Where {@link still} shows the new features. */
  readonly placed: Face;
  /** Above 0 where {@link after} shows anything of the new face. */
  readonly drawn: Plane;
  /** Share of the source in the place and shape of each feature. */
  readonly shape: ShownFeatures;
}

/** Replaces the target's face in copies of its picture. */
export async function drawSwap(
  from: Seen,
  to: Seen,
  finder: FaceFinder,
): Promise<DrawnSwap & Pick<Required<Case>, 'glasses'>> {
  const cover = await finder.coverOf(cropsOf(to.picture), to.face, true);
  const own = { cover: await finder.coverOf(cropsOf(from.picture), from.face) };
  const source = prepareSource(from.picture, from.face, drawnWidth(to.face.width), own);
  const after = copyOf(to.picture);
  swapFace(after, to.face, source, { cover });
  const target = prepareSource(to.picture, to.face, drawnWidth(to.face.width), { cover });
  const glasses = { source: source.glasses, target: target.glasses };
  return { after, glasses, ...movedAlone(to, source, cover) };
}

/**
 * Returns the target that is moved like the swap and no more, and the swap with all but the move of the jaw.
 * @param cover what the network finds in front of the target
 */
export function movedAlone(
  { picture, face }: Seen,
  source: SourceFace,
  cover: Plane | undefined,
): Omit<DrawnSwap, 'after'> {
  // A small face is swapped enlarged, and so is everything that is compared with it.
  const drawnInto = <T>(made: Picture, draw: (large: Enlarged) => T): T => {
    const large = enlarged(made, face);
    const result = draw(large);
    large.lay();
    return result;
  };
  const still = copyOf(picture);
  const { plan, placed } = drawnInto(still, (large) => {
    calmRedEyes(large.picture, large.face.points);
    const gaze = gazeOf(cropsOf(large.picture), large.face.points);
    const plan = planSwap(large.picture, large.face, source, { cover, gaze, step: 1 / large.by });
    compose(large.picture, plan, source);
    return { plan, placed: placedBy(plan, face, large) };
  });
  const moved = copyOf(picture);
  drawnInto(moved, (large) => {
    compose(large.picture, withoutSource(plan), source);
    takeJaw(large.picture, large.face, source, plan);
  });
  const drawn: Picture = {
    width: picture.width,
    height: picture.height,
    channels: 1,
    data: new Uint8Array(picture.width * picture.height),
  };
  drawnInto(drawn, (large) => {
    large.picture.data.set(shareOf(plan, large.picture).data);
    takeJaw(large.picture, large.face, source, plan);
  });
  const { width, height, data } = drawn;
  return {
    still,
    moved,
    placed,
    shape: plan.shape,
    drawn: { width, height, data: Float32Array.from(data, (value) => value / 255) },
  };
}

/** Returns the share of the new face in each pixel, as a grey picture. */
function shareOf({ alpha, originX, originY, scale }: SwapPlan, { width, height }: Picture): Picture {
  const data = new Uint8Array(width * height);
  const [endX, endY] = [originX + alpha.width * scale, originY + alpha.height * scale];
  for (let y = originY; y < Math.min(height, endY); y++)
    for (let x = originX; x < Math.min(width, endX); x++)
      data[y * width + x] = Math.round(
        255 * sample(alpha, (x + 0.5 - originX) / scale, (y + 0.5 - originY) / scale),
      );
  return { width, height, channels: 1, data };
}

/** Returns a plan that takes the source's shape and nothing of its pixels. */
function withoutSource(plan: SwapPlan): SwapPlan {
  const { share } = plan.skin;
  const none = plane(share.width, share.height);
  return { ...plan, skin: { ...plan.skin, share: none, correction: [none, none, none] } };
}

/** Returns the mesh that a swap is drawn with. */
function placedBy(
  { mixed, originX, originY, scale }: SwapPlan,
  face: Face,
  { x, y, by }: Pick<Enlarged, 'x' | 'y' | 'by'>,
): Face {
  const points = face.points.slice();
  for (let i = 0; i < mixed.length / 2; i++) {
    points[i * 3] = x + (originX + (mixed[i * 2] as number) * scale) / by;
    points[i * 3 + 1] = y + (originY + (mixed[i * 2 + 1] as number) * scale) / by;
  }
  return { ...face, points };
}

/** Returns the mesh that a swap of a frame is drawn with. @param shape as of {@link DrawnSwap.shape} */
export function placedLike(face: Face, source: SourceFace, shape: ShownFeatures): Face {
  const mixed = mixShape(face.points, source.points, face.width, shape);
  const points = face.points.map((value, i) =>
    i % 3 === 2 ? value : (mixed[((i / 3) | 0) * 2 + (i % 3)] as number),
  );
  return { ...face, points };
}

function copyOf(picture: Picture): Picture {
  return { ...picture, data: picture.data.slice() };
}
