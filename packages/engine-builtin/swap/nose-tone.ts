import { NOSE_BASE } from '@semblance/vision/face-regions';
import { blur, fillPolygon, grow, type Plane, plane, smoothstep } from '@semblance/vision/plane/plane';
import { convexHull } from './convex-hull.ts';
import { type Channels, luma } from './light.ts';

/** Width around the base of a nose in which its creases lie, and softness of its edge, as shares of the face width. */
const BESIDE = 0.04;
const SOFT = 0.02;
/** Share of its pixels that are darker than its nostrils are, and than its skin is. */
const DARK = 0.03;
const SKIN = 0.6;
/** Ratio of the darkness of two noses up to which they are alike, and the least share of it that is left. */
const ALIKE = 1.2;
const LEAST = 0.7;
/** Brightness relative to the skin, below which a pixel is dark, and from which it is skin. */
const SHADE = [0.6, 0.9] as const;
/** Fewest pixels that show a nose. */
const PIXELS = 12;

/**
 * Returns what must be added to the source's nose, so that its nostrils and creases are hardly darker than the target's:
 * how deep they look is a matter of the light, which falls from another side there.
 * @param own the target; `lit` is the source in its light, all on the work grid
 * @param points x and y of each mesh point on that grid, stride 2
 */
export function noseTone(own: Channels, lit: Channels, points: Float32Array, faceWidth: number): Channels {
  const { width, height } = lit[0];
  const out: Channels = [plane(width, height), plane(width, height), plane(width, height)];
  const hull = plane(width, height);
  fillPolygon(hull, convexHull(points, NOSE_BASE));
  const base = grow(hull, BESIDE * faceWidth);
  const [wanted, there] = [toneOf(own, base), toneOf(lit, base)];
  if (!wanted || !there) return out;
  const darkness = (tone: NoseTone): number => 1 - tone.dark / Math.max(1, tone.skin);
  const kept = Math.max(LEAST, (ALIKE * darkness(wanted)) / Math.max(1e-3, darkness(there)));
  if (kept >= 1) return out;
  const soft = blur(base, SOFT * faceWidth);
  for (let i = 0; i < soft.data.length; i++) {
    if (!soft.data[i]) continue;
    const ratio = lumaAt(lit, i) / Math.max(1, there.skin);
    const share = (1 - kept) * (soft.data[i] as number) * (1 - smoothstep(SHADE[0], SHADE[1], ratio));
    for (let c = 0; c < 3; c++)
      (out[c] as Plane).data[i] =
        share * Math.max(0, (there.colour[c] as number) - ((lit[c] as Plane).data[i] as number));
  }
  return out;
}

/** Bridge, wings and base of a nose. */
const NOSE = [168, 193, 417, 122, 351, 131, 360, 64, 294, 98, 327, 2] as const;
/** Scale of the light that falls on a nose, as a share of the face width. */
const LIGHT = 0.05;
/** Difference of brightness up to which two noses are lit alike, in levels, and share of what is beyond it that goes. */
const LIT_ALIKE = 10;
const STRENGTH = 0.9;
/** Least weight of what is seen around a pixel. */
const SEEN = 0.2;

/**
 * Returns what must be added to the source's nose, so that it is lit as brightly as the target's: a nose stands out of
 * the face and is often lit where the cheeks beside it are not.
 * @param own the target; `lit` is the source in the light of its skin, all on the work grid
 * @param hidden share of each pixel that is not skin or not seen
 * @param points x and y of each mesh point on that grid, stride 2
 */
export function noseLight(
  own: Channels,
  lit: Channels,
  { hidden, points }: { readonly hidden: Plane; readonly points: Float32Array },
  faceWidth: number,
): Channels {
  const { width, height } = hidden;
  const out: Channels = [plane(width, height), plane(width, height), plane(width, height)];
  const nose = plane(width, height);
  fillPolygon(nose, convexHull(points, NOSE));
  const soft = blur(nose, SOFT * faceWidth);
  const seen = { ...hidden, data: hidden.data.map((share, i) => (1 - share) * (nose.data[i] as number)) };
  const weight = blur(seen, LIGHT * faceWidth);
  const apart = own.map((channel, c) =>
    blur(
      {
        ...channel,
        data: channel.data.map(
          (value, i) => (value - ((lit[c] as Plane).data[i] as number)) * (seen.data[i] as number),
        ),
      },
      LIGHT * faceWidth,
    ),
  ) as unknown as Channels;
  for (let i = 0; i < soft.data.length; i++) {
    const around = weight.data[i] as number;
    if (!soft.data[i] || around < SEEN * (soft.data[i] as number)) continue;
    const brighter = lumaAt(apart, i) / around;
    if (brighter <= LIT_ALIKE) continue;
    const share = STRENGTH * (1 - LIT_ALIKE / brighter) * (soft.data[i] as number);
    for (let c = 0; c < 3; c++)
      (out[c] as Plane).data[i] = (share * ((apart[c] as Plane).data[i] as number)) / around;
  }
  return out;
}

interface NoseTone {
  readonly dark: number;
  readonly skin: number;
  /** Red, green and blue of the skin. */
  readonly colour: readonly [number, number, number];
}

function toneOf(channels: Channels, base: Plane): NoseTone | undefined {
  const inside: number[] = [];
  for (let i = 0; i < base.data.length; i++) if (base.data[i]) inside.push(i);
  if (inside.length < PIXELS) return undefined;
  inside.sort((a, b) => lumaAt(channels, a) - lumaAt(channels, b));
  const at = (share: number): number => inside[Math.floor(share * inside.length)] as number;
  const skin = at(SKIN);
  const colour = channels.map((channel) => channel.data[skin] as number) as [number, number, number];
  return { dark: lumaAt(channels, at(DARK)), skin: lumaAt(channels, skin), colour };
}

function lumaAt([r, g, b]: Channels, i: number): number {
  return luma(r.data[i] as number, g.data[i] as number, b.data[i] as number);
}
