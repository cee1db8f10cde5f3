import type { RgbImage } from '@semblance/vision/picture';
import { blur, type Plane, plane, sample, shrinkPlane, smoothstep } from '@semblance/vision/plane/plane';
import type { WarpMap } from '@semblance/vision/plane/warp-map';
import { type Lighting, litSource, ownPixels } from './aligned.ts';
import { difference, withoutFeatures } from './bare-skin.ts';
import { browReach, browsFaint, browsTaken } from './brows.ts';
import { eyeTone } from './eye-tone.ts';
import { featureMask, type Wearing } from './feature-mask.ts';
import { type Channels, luma } from './light.ts';
import { lipTone } from './lip-tone.ts';
import { noseLight, noseTone } from './nose-tone.ts';
import { withOwnDetail } from './own-detail.ts';
import { remnantsOf } from './remnants.ts';
import { COARSE_SCALES, COARSENESS, FINE_SCALES, type Masks, masksOf } from './scale-masks.ts';
import { type EyesKnown, type ShownFeatures, shownFeatures } from './shown-features.ts';
import type { SourceFace } from './source-face.ts';
import type { SkinBlend } from './swap-plan.ts';

/** What {@link blendSkin} needs, all on the work grid. */
export interface SkinBlendParts extends Lighting {
  /** Width of the target's face in the pixels that it is drawn with. */
  readonly targetWidth: number;
  readonly own: WarpMap;
  /** x and y of each mesh point, stride 2. */
  readonly points: Float32Array;
  readonly wearing: Omit<Wearing, 'brows'>;
  /** How surely the target wears a beard, 0–1. */
  readonly ownBeard: number;
  /** Share of each feature that is taken; undefined: it is to be found out. */
  readonly features: ShownFeatures | undefined;
  /** Share of each pixel that must stay the target's because the source does not show it. */
  readonly keep: Plane;
  /** 1 inside the mouth, which stays the target's. */
  readonly mouth: Plane;
  /** Share of each pixel that something in front of the target covers. */
  readonly covered: Plane;
  /** What the network finds in front of either face; undefined: it was not asked. */
  readonly front: Plane | undefined;
  readonly looks: EyesKnown | undefined;
  /** Share of each feature that the last analysis of a film took; undefined: there was none. */
  readonly before: ShownFeatures | undefined;
  /** Whether the target's brows stay because the source's are faint; undefined: it is to be found out. */
  readonly browsKept: boolean | undefined;
  /** 1 where the source shows its face, 0 where hair or a frame covers it. */
  readonly shown: Plane;
}

/** Softness of the edge of the features, as a share of the face width. */
const SOFT = 0.02;
/** Width of the border beside a cover of the target in which its features stay, so that no edge shows there. */
const BESIDE_COVER = 0.025;
/** Share of the source in what is coarser than all scales: light and complexion are the target's. */
const COARSEST = 0.1;

/** Scale below which the source is made sharper or softer, as a share of the face width. */
const SHARPENED = 0.018;
/** Ratio of detail up to which two pictures are as sharp as each other, and the limits of the correction. */
const ALIKE = 1.15;
const SHARPNESS_LIMITS = [0.3, 1.4] as const;

/** Enlargements of a source from which it lacks detail, and above which it has none of the finest. */
const ENLARGED = [1.2, 2] as const;
/** Enlargements from which its irises and brows are blurred, and above which they are blobs. */
const BLURRED = [1.9, 2.2] as const;
/** Finest scale that a picture shows, in its pixels. */
const RESOLVED = 0.8;

/** Scales between which the source's detail is laid on the skin, as shares of the face width. */
const DETAIL = [0.01, 0.06] as const;
/** Limit of that detail, in deviations of the target's own. */
const DETAIL_LIMIT = 1.5;

/**
 * Blends the source's features into the target's own skin scale by scale (multiresolution splines: Burt and Adelson
 * 1983), so that complexion, light, grain and blur are those of the target. On the skin lies some of the source's
 * detail (folds, bags, the philtrum), no stronger than the target's detail at that scale.
 * @param faceWidth in pixels of the work grid
 */
export function blendSkin(
  target: RgbImage,
  source: SourceFace,
  parts: SkinBlendParts,
  faceWidth: number,
): SkinBlend {
  const own = ownPixels(target, parts.own);
  const plain = litSource(source, parts, own);
  const [eyes, nose] = [eyeTone, noseTone].map((tone) => tone(own, plain, parts.points, faceWidth)) as [
    Channels,
    Channels,
  ];
  const light = noseLight(own, plain, { hidden: hiddenOf(parts), points: parts.points }, faceWidth);
  const lips = lipTone(own, plain, parts, faceWidth);
  const toned = eyes.map((channel, c) =>
    sum(sum(channel, nose[c] as Plane), sum(light[c] as Plane, lips[c] as Plane)),
  ) as unknown as Channels;
  const lit = plain.map((channel, c) => sum(channel, toned[c] as Plane)) as unknown as Channels;
  const enlargement = parts.targetWidth / source.resolved;
  const missing = smoothstep(ENLARGED[0], ENLARGED[1], enlargement);
  const sharpness = sharpnessOf(own, plain, parts, missing);
  const smooth = lit.map((channel) => blur(channel, SHARPENED * faceWidth)) as unknown as Channels;
  const other = lit.map((channel, c) =>
    sharpened(channel, smooth[c] as Plane, sharpness),
  ) as unknown as Channels;
  const bands = [detailOf(own, faceWidth), detailOf(other, faceWidth)] as const;
  const features =
    parts.features ??
    shownFeatures(
      ...bands,
      { free: freeOf(parts), front: parts.front, eyes: parts.looks },
      parts.points,
      faceWidth,
      parts.before,
    );
  const blobs = smoothstep(BLURRED[0], BLURRED[1], enlargement);
  const browsKept = parts.browsKept ?? browsFaint(bands, parts.points);
  const brows = source.browsFree && !browsKept ? browsTaken(bands, parts.points, blobs) : 0;
  const mask = featureMask(parts.points, parts.keep, faceWidth, { ...parts.wearing, brows }, features);
  const share = blur(mask, SOFT * faceWidth);
  const beside = blur(parts.covered, BESIDE_COVER * faceWidth);
  for (let i = 0; i < share.data.length; i++) {
    const free = 1 - smoothstep(0.05, 0.5, beside.data[i] as number);
    share.data[i] = (share.data[i] as number) * (1 - (parts.keep.data[i] as number)) * free;
  }
  const masks = masksOf(share, parts.eyes, faceWidth);
  const old = { ...parts, features, brows: parts.wearing.glasses ? 0 : brows, beard: parts.ownBeard, share };
  const remnants = remnantsOf(own, old, faceWidth);
  const bare = withoutFeatures(own, { share, remnants }, parts);
  const detail = skinDetail(bands, parts, { share, likeness: source.likeness });
  const apart = difference(other, bare, parts);
  const correction = [0, 1, 2].map((c) => {
    const out = join(apart[c] as Plane, share, masks, detail, faceWidth);
    for (let i = 0; i < out.data.length; i++) {
      const open = 1 - (parts.mouth.data[i] as number);
      const blurred =
        (share.data[i] as number) *
        ((1 - sharpness) * ((smooth[c] as Plane).data[i] as number) +
          sharpness * ((toned[c] as Plane).data[i] as number));
      const removed = ((bare[c] as Plane).data[i] as number) - ((own[c] as Plane).data[i] as number);
      out.data[i] = (out.data[i] as number) + open * (blurred + (1 - (share.data[i] as number)) * removed);
    }
    return out;
  });
  const free = plane(share.width, share.height);
  for (let i = 0; i < free.data.length; i++)
    free.data[i] = (share.data[i] as number) * (1 - (parts.mouth.data[i] as number));
  const blend = {
    share: free,
    sharpness,
    features,
    browsKept,
    correction: correction as unknown as Channels,
  };
  if (missing === 0) return blend;
  const scale = (RESOLVED * faceWidth) / source.resolved;
  const moving = parts.looks?.filmed && browReach(parts.points, share, faceWidth);
  return withOwnDetail(blend, { own, lit: plain }, { missing, scale, eyes: parts.eyes, blobs, moving });
}

function sum(a: Plane, b: Plane): Plane {
  const out = plane(a.width, a.height);
  for (let i = 0; i < out.data.length; i++) out.data[i] = (a.data[i] as number) + (b.data[i] as number);
  return out;
}

/** Returns where the target's skin is not seen: on features, and behind what covers it. */
function hiddenOf({ dark, covered }: SkinBlendParts): Plane {
  const out = plane(dark.width, dark.height);
  for (let i = 0; i < out.data.length; i++)
    out.data[i] = Math.max(dark.data[i] as number, covered.data[i] as number);
  return out;
}

/** Returns where both faces are seen as far as is known. */
function freeOf({ shown, covered }: SkinBlendParts): Plane {
  const out = plane(shown.width, shown.height);
  for (let i = 0; i < out.data.length; i++)
    out.data[i] = (shown.data[i] as number) * (1 - (covered.data[i] as number));
  return out;
}

/**
 * Returns the ratio of the target's finest detail to the source's, on eyes, brows, lips and nostrils. A source that
 * lacks detail gets the target's; to sharpen it as well would draw hard edges around the light on its nose.
 * @param missing how much of the finest detail the source lacks, 0–1
 */
function sharpnessOf(own: Channels, other: Channels, parts: SkinBlendParts, missing: number): number {
  const { dark, mouth, direct } = parts;
  const free = freeOf(parts);
  const energy = (green: Plane): number => {
    const smooth = blur(green, 1);
    let squares = 0;
    for (let i = 0; i < green.data.length; i++) {
      if (!direct.covered.data[i]) continue;
      const weight = (dark.data[i] as number) * (1 - (mouth.data[i] as number)) * (free.data[i] as number);
      squares += weight * ((green.data[i] as number) - (smooth.data[i] as number)) ** 2;
    }
    return Math.sqrt(squares);
  };
  const ratio = (energy(own[1]) + 1) / (energy(other[1]) + 1);
  // Eyes and brows of two people never have quite the same contrast.
  const beyond = ratio > 1 ? Math.max(1, ratio / ALIKE) : Math.min(1, ratio * ALIKE);
  const most = SHARPNESS_LIMITS[1] - missing * (SHARPNESS_LIMITS[1] - 1);
  return Math.min(most, Math.max(SHARPNESS_LIMITS[0], beyond));
}

function sharpened(channel: Plane, smooth: Plane, sharpness: number): Plane {
  const out = plane(channel.width, channel.height);
  for (let i = 0; i < out.data.length; i++)
    out.data[i] = sharpness * (channel.data[i] as number) + (1 - sharpness) * (smooth.data[i] as number);
  return out;
}

/**
 * Returns what must be added to the mix of source and target by `share`, so that each scale is mixed by its own
 * mask. All of it follows from the difference of the two.
 * @param apart source minus target
 * @param detail is added too
 */
function join(apart: Plane, share: Plane, masks: Masks, detail: Plane, faceWidth: number): Plane {
  const [finest, fine] = FINE_SCALES.map((scale) => blur(apart, scale * faceWidth)) as [Plane, Plane];
  const coarse = joinCoarse(shrinkPlane(fine, COARSENESS), masks.coarse, faceWidth / COARSENESS);
  const { width, height } = apart;
  const out = plane(width, height);
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++, i++) {
      const band = (finest.data[i] as number) - (fine.data[i] as number);
      out.data[i] =
        (detail.data[i] as number) +
        (masks.fine.data[i] as number) * band +
        sample(coarse, (x + 0.5) / COARSENESS, (y + 0.5) / COARSENESS) -
        (share.data[i] as number) * (finest.data[i] as number);
    }
  }
  return out;
}

function joinCoarse(fine: Plane, masks: readonly Plane[], faceWidth: number): Plane {
  const out = plane(fine.width, fine.height);
  let finer = fine;
  for (const [s, mask] of masks.entries()) {
    const scale = COARSE_SCALES[s];
    const coarser = scale === undefined ? undefined : blur(fine, scale * faceWidth);
    for (let i = 0; i < out.data.length; i++) {
      const band = coarser
        ? (finer.data[i] as number) - (coarser.data[i] as number)
        : COARSEST * (finer.data[i] as number);
      out.data[i] = (out.data[i] as number) + (mask.data[i] as number) * band;
    }
    if (coarser) finer = coarser;
  }
  return out;
}

/** Returns the brightness that the source's detail adds to the skin. @param likeness its strength */
function skinDetail(
  [ownBand, otherBand]: readonly [Plane, Plane],
  { shown, covered, direct, keep, mouth }: SkinBlendParts,
  { share, likeness }: { readonly share: Plane; readonly likeness: number },
): Plane {
  let squares = 0;
  let total = 1e-6;
  for (let i = 0; i < ownBand.data.length; i++) {
    if (!direct.covered.data[i] || (mouth.data[i] as number) > 0) continue;
    const weight = (1 - (share.data[i] as number)) ** 2 * (1 - (covered.data[i] as number));
    squares += weight * (ownBand.data[i] as number) ** 2;
    total += weight;
  }
  const limit = DETAIL_LIMIT * Math.sqrt(squares / total);
  const out = plane(ownBand.width, ownBand.height);
  for (let i = 0; i < out.data.length; i++) {
    if (!direct.covered.data[i]) continue;
    const free = (1 - (keep.data[i] as number)) * (1 - (mouth.data[i] as number)) * (shown.data[i] as number);
    const limited = Math.min(limit, Math.max(-limit, otherBand.data[i] as number));
    out.data[i] = likeness * free * (1 - (share.data[i] as number)) * limited;
  }
  return out;
}

/** Returns the brightness between the scales of {@link DETAIL}. */
function detailOf([r, g, b]: Channels, faceWidth: number): Plane {
  const bright = plane(r.width, r.height);
  for (let i = 0; i < bright.data.length; i++)
    bright.data[i] = luma(r.data[i] as number, g.data[i] as number, b.data[i] as number);
  const fine = blur(bright, DETAIL[0] * faceWidth);
  const coarse = blur(bright, DETAIL[1] * faceWidth);
  for (let i = 0; i < fine.data.length; i++)
    fine.data[i] = (fine.data[i] as number) - (coarse.data[i] as number);
  return fine;
}
