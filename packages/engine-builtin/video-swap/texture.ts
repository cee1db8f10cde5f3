import { evenRect, fromRgbFactors, type Rect, regionToRgb } from '@semblance/media/yuv';
import { cropsOf, type Face } from '@semblance/vision/face-mesh';
import { LIPS_OUTER } from '@semblance/vision/face-regions';
import { type Gaze, gazeOf } from '@semblance/vision/gaze';
import {
  blur,
  distanceInside,
  fillPolygon,
  type Plane,
  plane,
  sample,
  smoothstep,
} from '@semblance/vision/plane/plane';
import { withScratch } from '@semblance/vision/plane/scratch';
import type { WarpMap } from '@semblance/vision/plane/warp-map';
import type { Grain } from '../swap/grain.ts';
import { LIGHT, readLight } from '../swap/light.ts';
import { KIND, relight } from '../swap/relight.ts';
import type { DecidedBefore, FilmedEyes, ShownFeatures } from '../swap/shown-features.ts';
import type { SourceFace } from '../swap/source-face.ts';
import { planSwap } from '../swap/swap-face.ts';
import type { SwapPlan } from '../swap/swap-plan.ts';
import { applyTone } from '../swap/tone.ts';
import { type Colors, extent, type Frame, type FramePart, intoPart, shrunk } from './frame-part.ts';
import { skinLevel } from './skin-level.ts';
import { ALPHA_STEP, CHROMA_STRIDE, emptyTexture, packLuma, type SizedTexture } from './texture-data.ts';
import { placeOf, placesOf } from './texture-places.ts';

/** Face width, in pixels, from which a face is analysed at half its size; the analysis reduces it further anyway. */
const HALVED_FROM = 260;
/** Limit of its grain, in levels: its noise is not known. */
const HALVED_LIMIT = 5;
/** Width of the band in which the new face fades at the end of the mesh, as a share of the face width. */
const EDGE = 0.03;
/** The same at the edge of the source's patch, in its coarse pixels. */
const OUTLINE = 1.5;

/**
 * The new face as it looks in one frame: lit, toned and cut out, in its own picture. While only place, pose and
 * expression change, the same texture on a moved mesh is the swap. It is in shared memory, so all threads draw from
 * it without a copy.
 */
export interface FaceTexture extends SizedTexture {
  /** Mesh in pixels of the texture, stride 3. */
  readonly points: Float32Array;
  /** Strength of the frame's own finest texture that is laid over it. */
  readonly grain: Grain;
  /** Share of the source in the place and shape of each feature. */
  readonly shape: ShownFeatures;
  /** Share of each feature that is taken from the source, in any shape. */
  readonly taken: ShownFeatures;
  /** Whether the face that was there wears a beard. */
  readonly bearded: boolean;
  /** Whether its moustache hangs over the upper lip. */
  readonly overLip?: boolean | undefined;
  /** Whether it keeps its brows because the source's are much fainter. */
  readonly browsKept?: boolean | undefined;
  /** Where the source looks. */
  readonly gaze: Gaze;
  /** Brightness of the skin that was there. */
  readonly level: number;
}

export interface TextureInputs {
  readonly frame: Frame;
  readonly face: Face;
  readonly color: Colors;
  /** What the network finds in front of the face; undefined: it was not asked. */
  readonly cover?: Plane | undefined;
  readonly filmed?: FilmedEyes | undefined;
  /** What the last analysis of the film decided. */
  readonly before?: DecidedBefore | undefined;
}

/**
 * Analyses a face of a frame completely, as Photo Swap does, and makes the matching texture.
 */
export function makeTexture(
  { frame, face, color, cover, filmed, before }: TextureInputs,
  source: SourceFace,
): FaceTexture {
  const level = skinLevel(frame, face.points);
  const part = facePart(frame, face, color);
  return withScratch(() => {
    const local = intoPart(face, part);
    // Each frame that is drawn turns the eyes by itself.
    const gaze = gazeOf(cropsOf(part.picture), local.points);
    const plan = planSwap(part.picture, local, source, {
      cover,
      gaze,
      turned: false,
      filmed,
      before,
      step: part.step,
    });
    // A picture at half its size has lost its noise.
    const share = part.step === 1 ? plan.grain.share : Math.max(plan.grain.share, grainOf(face, source));
    const grain = { share, limit: part.step === 1 ? plan.grain.limit : HALVED_LIMIT };
    return {
      ...lay(plan, source, color, frame, local.width / plan.scale),
      grain,
      level,
      shape: plan.shape,
      taken: plan.skin.features,
      bearded: plan.bearded,
      overLip: plan.overLip,
      browsKept: plan.skin.browsKept,
      gaze: source.gaze,
    };
  });
}

/** As in Photo Swap, an enlarged patch has lost its finest detail. */
function grainOf(face: Face, source: SourceFace): number {
  const t = Math.min(1, Math.max(0, (face.width / source.resolved - 1.05) / 0.95));
  return 0.8 * t * t * (3 - 2 * t);
}

function facePart(frame: Frame, face: Face, color: Colors): FramePart {
  const { left, top, right, bottom } = extent(face.points);
  const margin = 0.1 * face.width;
  const x = left - margin;
  const y = top - margin;
  const rect = evenRect({ x, y, width: right + margin - x, height: bottom + margin - y }, frame);
  if (face.width >= HALVED_FROM) return shrunk(frame, rect, 2, color);
  return { picture: regionToRgb(frame, rect, color), x: rect.x, y: rect.y, step: 1 };
}

type Laid = Pick<FaceTexture, keyof SizedTexture | 'points'>;

/** Lights every pixel of the source's patch as the plan says for its place. */
function lay(plan: SwapPlan, source: SourceFace, color: Colors, frame: Frame, faceWidth: number): Laid {
  const { image, points } = source;
  const size = image.width & ~1;
  const box = meshBox(points, size);
  const samples = placesOf(plan, source);
  const shown = meshShare(plan, faceWidth);
  const within = outlineShare(samples.mesh, source);
  const { luma, chroma, alpha } = emptyTexture(size);
  const [red, green, blue] = plan.skin.correction;
  const half = size >> 1;
  const sums = new Float32Array(half * 3);
  const { y0, yr, yg, yb, ur, ug, ub, vr, vg, vb } = fromRgbFactors(frame, color);
  const rgb = new Float32Array(3);
  const light = new Float32Array(LIGHT.count);
  const kind = new Float32Array(KIND.count);
  const scale = source.visibleScale;
  for (let y = box.y; y < box.y + box.height; y++) {
    if (y % 2 === 0) sums.fill(0);
    for (let x = box.x; x < box.x + box.width; x++) {
      const onMesh = placeOf(samples.mesh, (x + 0.5) * scale, (y + 0.5) * scale);
      const at = onMesh ?? placeOf(samples.mouth, (x + 0.5) * scale, (y + 0.5) * scale);
      if (!at) continue;
      const opacity = sample(shown, at.x, at.y) * sample(within, (x + 0.5) * scale, (y + 0.5) * scale);
      if (x % ALPHA_STEP === 0 && y % ALPHA_STEP === 0)
        alpha[(y / ALPHA_STEP) * Math.ceil(size / ALPHA_STEP) + x / ALPHA_STEP] = opacity;
      // In the mouth the frame's own pixels move with the lips, and nothing is added.
      if (!onMesh) continue;
      const share = opacity * sample(plan.skin.share, at.x, at.y);
      const whole = share * plan.skin.sharpness;
      rgb.fill(0);
      if (share > 0.002) {
        const i = (y * image.width + x) * 3;
        for (let c = 0; c < 3; c++) rgb[c] = image.data[i + c] as number;
        kind[KIND.eye] = sample(plan.eyes, at.x, at.y);
        kind[KIND.lips] = sample(plan.lips, at.x, at.y);
        kind[KIND.feature] = sample(plan.features, at.x, at.y);
        readLight(plan.light, at.x, at.y, light);
        relight(light, kind, source.grey, rgb);
        if (plan.tone) applyTone(plan.tone, rgb);
      }
      const r = clamp(rgb[0] as number) * whole + sample(red, at.x, at.y) * opacity;
      const g = clamp(rgb[1] as number) * whole + sample(green, at.x, at.y) * opacity;
      const b = clamp(rgb[2] as number) * whole + sample(blue, at.x, at.y) * opacity;
      luma[y * size + x] = packLuma(y0 * share + yr * r + yg * g + yb * b, share);
      const c = x >> 1;
      sums[c * 3] = (sums[c * 3] as number) + ur * r + ug * g + ub * b;
      sums[c * 3 + 1] = (sums[c * 3 + 1] as number) + vr * r + vg * g + vb * b;
      sums[c * 3 + 2] = (sums[c * 3 + 2] as number) + share;
    }
    if (y % 2 === 0) continue;
    for (let c = 0; c < half; c++) {
      const o = ((y >> 1) * half + c) * CHROMA_STRIDE;
      chroma[o] = packed(128 + (sums[c * 3] as number) / 4, 128 + (sums[c * 3 + 1] as number) / 4);
      chroma[o + 1] = packed((255 * (sums[c * 3 + 2] as number)) / 4, 0);
    }
  }
  return { size, box, luma, chroma, alpha, points: source.points.slice() };
}

/**
 * Returns the share of the new face, faded towards the end of the mesh: a turned face is folded before its outline.
 */
function meshShare(plan: SwapPlan, faceWidth: number): Plane {
  const mesh = plane(plan.width, plan.height);
  for (let i = 0; i < mesh.data.length; i++) {
    // The mesh has no triangles in the mouth.
    const mouth = (plan.lips.data[i] as number) > 0.3;
    mesh.data[i] = mouth ? 1 : (plan.direct.covered.data[i] as number);
  }
  const depth = distanceInside(mesh);
  const out = plane(plan.width, plan.height);
  for (let i = 0; i < out.data.length; i++) {
    out.data[i] =
      (plan.alpha.data[i] as number) * smoothstep(1, 1 + EDGE * faceWidth, depth.data[i] as number);
  }
  return out;
}

/**
 * Returns 1 well inside the visible part of the source's patch, 0 at its edge. On a face that is turned the other
 * way one edge pixel covers many frame pixels, so a ragged edge would look like a comb.
 */
function outlineShare(where: WarpMap, { points, visibleScale }: SourceFace): Plane {
  const { width, height } = where.covered;
  const seen = plane(width, height);
  seen.data.set(where.covered.data);
  fillPolygon(
    seen,
    LIPS_OUTER.flatMap((index) => [
      (points[index * 3] as number) * visibleScale,
      (points[index * 3 + 1] as number) * visibleScale,
    ]),
  );
  const out = blur(seen, OUTLINE);
  for (let i = 0; i < out.data.length; i++) out.data[i] = Math.max(0, 2 * (out.data[i] as number) - 1);
  return out;
}

/** Returns the part of a texture that the mesh covers. The nose of a turned face lies beyond its outline. */
function meshBox(points: Float32Array, size: number): Rect {
  const { left, top, right, bottom } = extent(points);
  const all = { width: size, height: size };
  return evenRect({ x: left - 2, y: top - 2, width: right - left + 4, height: bottom - top + 4 }, all);
}

/** Packs two numbers of 0–255, rounded, into the halves of a word. */
function packed(lower: number, upper: number): number {
  return (
    (Math.min(255, Math.max(0, lower + 0.5)) & 255) | ((Math.min(255, Math.max(0, upper + 0.5)) & 255) << 16)
  );
}

function clamp(value: number): number {
  return value <= 0 ? 0 : value >= 255 ? 255 : value;
}
