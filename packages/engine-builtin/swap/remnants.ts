import { LEFT_BROW, NOSE_BASE, RIGHT_BROW } from '@semblance/vision/face-regions';
import { blur, fillPolygon, grow, type Plane, plane, smoothstep } from '@semblance/vision/plane/plane';
import { MOUSTACHE } from './beard.ts';
import { convexHull } from './convex-hull.ts';
import { type Channels, luma } from './light.ts';
import type { ShownFeatures } from './shown-features.ts';

/** Distance from the mesh of a brow to which its hairs reach, as a share of the face width. */
const REACH = 0.07;
/** Width of the border around that in which what is dark goes on beyond it, as hair does, in the same unit. */
const BORDER = 0.02;
/** Width of what is around a mesh and belongs to the feature, and of the skin that a place is compared with. */
const BESIDE = 0.025;
const AROUND = 0.08;
/** Brightness relative to that skin below which a pixel belongs to a brow, or to the shadow of a nose. */
const DARK = 0.84;
/** Share of the new face from which nothing of the old one is left. */
const REPLACED = 0.9;
/** Width that is removed beyond the dark pixels, and softness of its edge, as shares of the face width. */
const MARGIN = 0.018;
const SOFT = 0.008;

export interface RemnantParts {
  /** x and y of each mesh point, stride 2. */
  readonly points: Float32Array;
  /** Share of each feature that is taken. */
  readonly features: ShownFeatures;
  /** Share of the source's brows that is taken, 0–1. */
  readonly brows: number;
  /** How surely the first face wears a beard, 0–1. */
  readonly beard: number;
  /** Share of the source's own pixels. */
  readonly share: Plane;
  /** 1 on eyes, brows, lips and nostrils. */
  readonly dark: Plane;
  /** Share of each pixel that something in front covers. */
  readonly covered: Plane;
}

/**
 * Returns 1 where a first face's brows and the shadow of its nose reach beyond its mesh, so that they would be left
 * beside those of the second face. Dark pixels belong to them as far as they are connected; what goes on further is
 * hair or a shadow on the skin.
 */
export function remnantsOf(own: Channels, parts: RemnantParts, faceWidth: number): Plane {
  const { points, features, share, dark } = parts;
  const out = plane(share.width, share.height);
  const area = (group: readonly number[], grown: number): Plane => {
    const mask = plane(share.width, share.height);
    fillPolygon(mask, convexHull(points, group));
    return grown > 0 ? grow(mask, grown * faceWidth) : mask;
  };
  const brows = ([RIGHT_BROW, LEFT_BROW] as const).filter(
    (_, side) => parts.brows * (side === 0 ? features.rightBrow : features.leftBrow) > 0.5,
  );
  const nose = features.nose > 0.5 && parts.beard < 0.5;
  if (brows.length === 0 && !nose) return out;
  const shade = shadeOf(own, dark, AROUND * faceWidth);
  const isDark = (i: number): boolean =>
    (shade.data[i] as number) < DARK && (parts.covered.data[i] as number) < 0.1;
  for (const brow of brows) {
    const within = area(brow, REACH);
    const wider = area(brow, REACH + BORDER);
    const ends = (i: number): boolean => !within.data[i] && (share.data[i] as number) < REPLACED;
    connected(out, area(brow, BESIDE), { inside: (i) => wider.data[i] === 1 && isDark(i), ends });
  }
  if (nose) {
    const lip = area(MOUSTACHE, 0);
    connected(out, area(NOSE_BASE, BESIDE), { inside: (i) => lip.data[i] === 1 && isDark(i) });
  }
  if (!out.data.includes(1)) return out;
  const soft = blur(grow(out, MARGIN * faceWidth), SOFT * faceWidth);
  // Within the new features the old ones show through nowhere.
  for (let i = 0; i < soft.data.length; i++)
    soft.data[i] = (soft.data[i] as number) * (1 - smoothstep(0.5, REPLACED, share.data[i] as number));
  return soft;
}

/** Returns the brightness of each pixel relative to that of the skin around it. */
function shadeOf([r, g, b]: Channels, dark: Plane, sigma: number): Plane {
  const skin = plane(dark.width, dark.height);
  const level = plane(dark.width, dark.height);
  const lit = plane(dark.width, dark.height);
  for (let i = 0; i < skin.data.length; i++) {
    level.data[i] = luma(r.data[i] as number, g.data[i] as number, b.data[i] as number);
    skin.data[i] = Math.max(0, 1 - 5 * (dark.data[i] as number));
    lit.data[i] = (skin.data[i] as number) * (level.data[i] as number);
  }
  const [mean, known] = [blur(lit, sigma), blur(skin, sigma)];
  for (let i = 0; i < level.data.length; i++) {
    const sure = (known.data[i] as number) > 0.05;
    level.data[i] = sure
      ? ((level.data[i] as number) * (known.data[i] as number) + 1) / ((mean.data[i] as number) + 1)
      : 1;
  }
  return level;
}

/** Marks the connected pixels `inside` that touch a seed, unless a part of them `ends` somewhere else. */
function connected(
  out: Plane,
  seeds: Plane,
  { inside, ends = () => false }: { inside: (i: number) => boolean; ends?: (i: number) => boolean },
): void {
  const { width, data } = seeds;
  const seen = new Uint8Array(data.length);
  for (let start = 0; start < data.length; start++) {
    if (!data[start] || seen[start] || !inside(start)) continue;
    const part = [start];
    seen[start] = 1;
    let whole = true;
    // The list grows during the iteration.
    for (const i of part) {
      if (ends(i)) whole = false;
      for (const j of [i - 1, i + 1, i - width, i + width]) {
        if (j < 0 || j >= data.length || seen[j] || !inside(j)) continue;
        seen[j] = 1;
        part.push(j);
      }
    }
    if (whole) for (const i of part) out.data[i] = 1;
  }
}
