import type { Picture } from '@semblance/engine-api/picture';
import { cropsOf, type Face, POINTS } from '@semblance/vision/face-mesh';
import { type Gaze, gazeOf } from '@semblance/vision/gaze';
import { blur, distanceInside, type Plane, plane, smoothstep } from '@semblance/vision/plane/plane';
import { withScratch } from '@semblance/vision/plane/scratch';
import { drawTriangles, emptyMap, MOUTH_TRIANGLES } from '@semblance/vision/plane/warp-map';
import { BEARD_KEPT, beardOf } from './beard.ts';
import { compareLight } from './compare-light.ts';
import { compose } from './compose.ts';
import { faceZones, plainSkin } from './face-zones.ts';
import { withForehead } from './forehead.ts';
import { type Grain, missingGrain } from './grain.ts';
import { withoutLipstick } from './lipstick.ts';
import { type Looked, lookAt } from './look-at.ts';
import { mouthInside, openingOf } from './mouth-inside.ts';
import { sourceNoise, targetNoise } from './noise.ts';
import { takeJaw } from './picture-jaw.ts';
import { calmRedEyes } from './red-eyes.ts';
import { mixShape } from './shape.ts';
import { hairHangsOverLip, upperLip } from './shaven.ts';
import { ALL_SHOWN, type DecidedBefore, type FilmedEyes, type ShownFeatures } from './shown-features.ts';
import { blendSkin } from './skin-blend.ts';
import { enlarged } from './small-face.ts';
import { flatten, type SourceFace } from './source-face.ts';
import { frontOfEither, sourceShown } from './source-on-grid.ts';
import type { SwapPlan } from './swap-plan.ts';
import { findTone } from './tone.ts';
import { gazeShift, turnEyes } from './turn-eyes.ts';
import { foldsOf, turnedAway } from './turned-away.ts';

/** Width of the band in which old and new face are blended, as a share of the face width. */
const FEATHER = 0.02;
/** The same band where the edge crosses bare forehead. */
const BAND_FEATHER = 0.05;
const FOREHEAD_FEATHER = 0.07;
/**
 * Widths of the bands in which the light must match closely, and in which the relief fades into the target's, as
 * shares of the face width.
 */
const LIGHT_EDGE = [0.01, 0.063] as const;
const RELIEF_EDGE = [0.03, 0.155] as const;
/**
 * Distance from the outline up to which the target's own cheek may stay where the source turns its cheek away, as
 * shares of the face width.
 */
const TURNED_AWAY = [0.12, 0.2] as const;

const EYES_KEPT = { right: 0, left: 0, rightBrow: 0, leftBrow: 0 } as const;

/** Times of the parts of one swap, in ms. */
export type SwapTimes = Record<string, number>;

/**
 * Replaces one face of a picture by the source's face, in place. A small face is swapped enlarged, so
 * the source is prepared for {@link drawnWidth}.
 * @param cover what the network finds in front of the face; undefined: it was not asked
 * @param draw false: only finds out what would be taken, and calms red eyes
 * @returns share of each feature that was taken
 */
export function swapFace(
  picture: Picture,
  face: Face,
  source: SourceFace,
  {
    cover,
    times = {},
    draw = true,
  }: { readonly cover?: Plane | undefined; readonly times?: SwapTimes; readonly draw?: boolean } = {},
): ShownFeatures {
  let last = performance.now();
  const lap = (name: string): void => {
    const now = performance.now();
    times[name] = (times[name] ?? 0) + now - last;
    last = now;
  };
  const large = enlarged(picture, face);
  return withScratch(() => {
    // Where the target's eyes stay, its red pupils go too.
    calmRedEyes(large.picture, large.face.points);
    const gaze = gazeOf(cropsOf(large.picture), large.face.points);
    const plan = planSwap(large.picture, large.face, source, { cover, gaze, step: 1 / large.by, lap });
    if (draw) {
      compose(large.picture, plan, source);
      lap('compose');
      takeJaw(large.picture, large.face, source, plan);
      lap('jaw');
    }
    large.lay();
    return plan.skin.features;
  });
}

/**
 * Plans a swap. Where something is in front of a feature it is planned again without that feature, so that the
 * target stays as it is there.
 * @param cover as of {@link swapFace}
 * @param gaze where the target looks; undefined: it is not known
 * @param turned whether the new eyes look there too; else they look where those of the source do
 * @param filmed what the frames of a film tell of its eyes
 * @param before what the last analysis of the film decided
 * @param step pixels that the swap is drawn with per pixel of the picture, which was made smaller
 * @param known share of each feature that is taken; undefined: it is to be found out
 * @param browsKept whether the brows stay because the source's are much fainter; undefined: it is to be found out
 * @param looked what {@link lookAt} found; undefined: it is to be found out
 */
export function planSwap(
  picture: Picture,
  face: Face,
  source: SourceFace,
  options: {
    cover?: Plane | undefined;
    gaze?: Gaze | undefined;
    turned?: boolean;
    filmed?: FilmedEyes | undefined;
    before?: DecidedBefore | undefined;
    step?: number;
    lap?: (name: string) => void;
    known?: ShownFeatures;
    browsKept?: boolean | undefined;
    looked?: Looked;
  } = {},
): SwapPlan {
  const {
    cover,
    gaze,
    turned = true,
    filmed,
    before,
    step = 1,
    lap = () => undefined,
    known,
    browsKept = before?.browsKept,
    looked,
  } = options;
  const looks = looked ?? lookAt(picture, face, cover);
  const { grid, faceWidth, target, points, flat, covered, clean, framed, front } = looks;
  const { width, height } = grid;
  lap('mask');
  // A beard that was seen once is there, whatever the light.
  const bearded = before?.bearded || beardOf(target, flat, faceWidth, front) > BEARD_KEPT;
  const overLip = bearded && (before?.overLip || hairHangsOverLip(target, flat));
  const shape = {
    ...(known ?? ALL_SHOWN),
    // Brows that stay lie where they are: the source's place would raise them, or make them frown.
    ...(source.browsFree && !browsKept ? {} : { rightBrow: 0, leftBrow: 0 }),
    // Behind glasses only what is seen through the lenses changes, so that frame, brows and lids stay whole.
    ...(framed ? EYES_KEPT : {}),
    // The mesh guesses a lip that hair hides, and hair that moves with it would be torn.
    ...(overLip ? { mouth: 0 } : {}),
  };
  const mixed = mixShape(points, source.points, faceWidth, shape);
  const depth = Float32Array.from({ length: POINTS }, (_, i) => points[i * 3 + 2] as number);
  const from = flatten(source.points);
  const direct = emptyMap(width, height);
  drawTriangles(direct, { to: mixed, from, depth });
  if (gaze && turned) turnEyes(direct, mixed, gazeShift(source.gaze, gaze), gaze.aside);
  const own = emptyMap(width, height);
  drawTriangles(own, { to: mixed, from: flat, depth });
  drawTriangles(own, { to: mixed, from: flat, depth }, MOUTH_TRIANGLES);
  lap('warp');

  const zones = faceZones(mixed, { width, height }, faceWidth);
  lap('mask');
  const shown = sourceShown(source, direct);
  const distance = distanceInside(zones.replaced);
  const inside = distanceInside(zones.face);
  const withinForehead = distanceInside(withForehead(zones, direct, { source, clean }, faceWidth));
  const away = turnedAway(direct, faceWidth);
  const folds = foldsOf(direct, source.faceWidth / faceWidth);
  const alpha = plane(width, height);
  const keep = plane(width, height);
  const edge = plane(width, height);
  const rim = plane(width, height, 1);
  const opened = (openingOf(source.points, 3) * faceWidth) / source.faceWidth;
  const mouth = mouthInside(zones.mouth, mixed, faceWidth, opened);
  const eyes = blur(zones.eyes, 0.01 * faceWidth);
  const lips = blur(zones.lips, 0.012 * faceWidth);
  const features = plane(width, height);
  const brows = blur(zones.brows, 0.015 * faceWidth);
  const skinHere = plainSkin(zones);
  for (let i = 0; i < features.data.length; i++)
    features.data[i] = (zones.face.data[i] as number) - (skinHere.data[i] as number);
  features.data.set(blur(features, 0.012 * faceWidth).data);
  const softShown = blur(shown, 0.012 * faceWidth);
  for (let i = 0; i < alpha.data.length; i++) {
    if ((direct.covered.data[i] as number) + (own.covered.data[i] as number) === 0) continue;
    // The face never reaches beyond the outline, not even by a pixel of the work grid.
    const most = (inside.data[i] as number) - 1;
    const depth = Math.min(distance.data[i] as number, most);
    const foreheadDepth = Math.min(withinForehead.data[i] as number, most);
    const d = Math.max(depth, foreheadDepth - (FOREHEAD_FEATHER - 0.03) * faceWidth);
    const across = smoothstep(0, 0.06 * faceWidth, most - depth);
    const feather = FEATHER + (BAND_FEATHER - FEATHER) * across;
    const share = Math.max(
      smoothstep(0, feather * faceWidth, depth),
      smoothstep(0, FOREHEAD_FEATHER * faceWidth, foreheadDepth),
    );
    alpha.data[i] = share * (1 - (covered.data[i] as number));
    edge.data[i] = 1 - smoothstep(LIGHT_EDGE[0] * faceWidth, LIGHT_EDGE[1] * faceWidth, d);
    rim.data[i] = 1 - smoothstep(RELIEF_EDGE[0] * faceWidth, RELIEF_EDGE[1] * faceWidth, d);
    // A hidden brow of the source cannot be guessed, so the target's brow stays.
    const missing = direct.covered.data[i]
      ? (1 - (softShown.data[i] as number)) * (brows.data[i] as number)
      : 1;
    const beside =
      (away.data[i] as number) *
      (1 - smoothstep(TURNED_AWAY[0] * faceWidth, TURNED_AWAY[1] * faceWidth, inside.data[i] as number));
    keep.data[i] = Math.max(missing, beside, folds.data[i] as number);
  }
  lap('mask');
  const light = compareLight(target, source, { zones, direct, own, covered, shown, edge, rim }, faceWidth);
  lap('colour');
  const tone = findTone(target);
  const ownBeard = bearded ? 1 : 0;
  if (overLip) {
    const lip = upperLip(mixed, grid, faceWidth);
    for (let i = 0; i < keep.data.length; i++)
      keep.data[i] = Math.max(keep.data[i] as number, lip.data[i] as number);
  }
  const skin = blendSkin(
    target,
    source,
    {
      targetWidth: face.width * step,
      direct,
      own,
      points: mixed,
      wearing: {
        glasses: source.glasses || framed,
        beard: Math.max(source.beard, ownBeard),
      },
      ownBeard,
      features: known,
      keep,
      mouth,
      shown: softShown,
      covered,
      front: frontOfEither(front, source, direct),
      looks: gaze && { own: gaze, other: source.gaze, filmed },
      before: before?.taken,
      browsKept,
      light,
      tone,
      eyes,
      lips,
      dark: features,
    },
    faceWidth,
  );
  lap('skin');
  const hidden = !known && Math.min(...Object.values(skin.features)) < 1;
  if (hidden || (source.browsFree && skin.browsKept && browsKept === undefined)) {
    const found = { known: skin.features, browsKept: skin.browsKept, looked: looks };
    return planSwap(picture, face, source, { ...options, ...found });
  }
  return {
    ...grid,
    mixed,
    shape,
    direct,
    own,
    alpha,
    eyes,
    lips,
    features,
    grain: grainOf(picture, face, source, face.width * step),
    light,
    skin: withoutLipstick(skin, mouth, {
      target: { image: target, points: flat },
      source: { image: source.image, points: from },
      own,
    }),
    bearded,
    overLip,
    tone,
  };
}

/**
 * Returns how much of the picture's finest texture the new features get: so much that they are as noisy as the skin
 * around them. An enlarged patch has lost all of its own.
 */
function grainOf(picture: Picture, face: Face, source: SourceFace, drawnWidth: number): Grain {
  const enlarged = 0.8 * smoothstep(1.05, 2, drawnWidth / source.resolved);
  const { share, limit } = missingGrain(targetNoise(picture, face), sourceNoise(source));
  return { share: Math.max(enlarged, share), limit };
}
