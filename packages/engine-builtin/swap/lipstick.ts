import { type RgbImage, sampleRgb } from '@semblance/vision/picture';
import { type Plane, smoothstep } from '@semblance/vision/plane/plane';
import type { WarpMap } from '@semblance/vision/plane/warp-map';
import { LIP_RINGS } from './feature-shapes.ts';
import { luma } from './light.ts';
import type { SkinBlend } from './swap-plan.ts';

/** Mesh points in the middle of both lips, and on the cheeks. */
const LIPS = LIP_RINGS[1] as readonly number[];
const CHEEKS: readonly number[] = [50, 187, 205, 280, 411, 425];
/** Redness of lips beyond that of skin above which they are painted, and from which they are bright. */
const PAINTED = [0.25, 0.45] as const;
/** Shares of that redness up to which a pixel is bare, and from which it is painted. */
const RED = [0.1, 0.4] as const;
/** Darkness in which a colour says little, in levels. */
const DARK = 8;

/** A face in an image; x and y of each mesh point in its pixels, stride 2. */
interface Seen {
  readonly image: RgbImage;
  readonly points: Float32Array;
}

/**
 * Takes the paint off the edges of the target's lips that lie inside its mouth, which stays its own. They would draw a
 * bright line around the teeth between bare lips of the source. Lips that are not painted are as red as gums, so
 * they are not told apart.
 * @param mouth share of each pixel that stays the target's
 * @param own place of the target that belongs to each pixel
 */
export function withoutLipstick(
  blend: SkinBlend,
  mouth: Plane,
  { target, source, own }: { readonly target: Seen; readonly source: Seen; readonly own: WarpMap },
): SkinBlend {
  const cheeks = meanOf(target, CHEEKS);
  const [skin, lips] = [redness(cheeks), redness(meanOf(target, LIPS))];
  const others = redness(meanOf(source, LIPS)) - redness(meanOf(source, CHEEKS));
  const painted =
    blend.features.mouth *
    smoothstep(PAINTED[0], PAINTED[1], lips - skin) *
    (1 - smoothstep(PAINTED[0], PAINTED[1], others));
  if (painted === 0) return blend;
  const [r, g, b] = blend.correction.map((channel) => ({ ...channel, data: channel.data.slice() })) as [
    Plane,
    Plane,
    Plane,
  ];
  const level = brightness(cheeks);
  const rgb = new Float32Array(3);
  for (let i = 0; i < mouth.data.length; i++) {
    if (!mouth.data[i] || !own.covered.data[i]) continue;
    sampleRgb(target.image, own.x.data[i] as number, own.y.data[i] as number, rgb);
    const share =
      painted * (mouth.data[i] as number) * smoothstep(RED[0], RED[1], (redness(rgb) - skin) / (lips - skin));
    const here = brightness(rgb);
    for (const [c, channel] of [r, g, b].entries()) {
      const bare = (((cheeks[c] as number) - level) * (here + DARK)) / (level + DARK);
      channel.data[i] = (channel.data[i] as number) + share * (bare - ((rgb[c] as number) - here));
    }
  }
  return { ...blend, correction: [r, g, b] };
}

/** Returns the mean colour at some mesh points. */
function meanOf({ image, points }: Seen, group: readonly number[]): Float32Array {
  const out = new Float32Array(3);
  const rgb = new Float32Array(3);
  for (const index of group) {
    sampleRgb(image, points[index * 2] as number, points[index * 2 + 1] as number, rgb);
    for (let c = 0; c < 3; c++) out[c] = (out[c] as number) + (rgb[c] as number) / group.length;
  }
  return out;
}

/** Returns the red of a colour beyond its green, as a share of its brightness. */
function redness(rgb: Float32Array): number {
  return ((rgb[0] as number) - (rgb[1] as number)) / (brightness(rgb) + DARK);
}

function brightness(rgb: Float32Array): number {
  return luma(rgb[0] as number, rgb[1] as number, rgb[2] as number);
}
