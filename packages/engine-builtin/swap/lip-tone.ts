import { LIPS_INNER, LIPS_OUTER } from '@semblance/vision/face-regions';
import { blur, fillPolygon, type Plane, plane } from '@semblance/vision/plane/plane';
import { type Channels, luma } from './light.ts';

/** Mesh points on the cheeks. */
const CHEEKS: readonly number[] = [50, 187, 205, 280, 411, 425];
/** Share of the redness of the target's lips that the new ones have at least; more than bare lips have is paint. */
const LEAST_RED = 0.7;
const BARE = 0.16;
/** Brightness of lips against that of the cheeks above which they look chalky, unless the target's are so too, and ever. */
const PALE = 0.93;
const PALEST = 1.25;
/** Darkness in which a colour says little, in levels. */
const DARK = 8;
/** Fewest pixels that show a mouth's colour. */
const PIXELS = 12;
/** Softness of the edge of lips, as a share of the face width. */
const SOFT = 0.012;

/** Mean brightness of some pixels, and their red beyond green as a share of it. */
interface Tone {
  readonly bright: number;
  readonly red: number;
}

/**
 * Returns what must be added to the source's lips, so that they are not chalky on the target's skin: lips of dark skin
 * are paler than it, and in glaring light the colour of skin tells nothing of that of lips. So they are nearly as red as
 * the target's, up to what bare lips are, and darker than its cheeks.
 * @param own the target; `lit` is the source in its light, all on the work grid
 * @param covered share of each pixel that something in front of the target covers
 * @param points x and y of each mesh point on that grid, stride 2
 */
export function lipTone(
  own: Channels,
  lit: Channels,
  { covered, points }: { readonly covered: Plane; readonly points: Float32Array },
  faceWidth: number,
): Channels {
  const { width, height } = lit[0];
  const out: Channels = [plane(width, height), plane(width, height), plane(width, height)];
  const lips = plane(width, height);
  const draw = (outline: readonly number[], value: number): void =>
    fillPolygon(
      lips,
      outline.flatMap((index) => [points[index * 2] as number, points[index * 2 + 1] as number]),
      value,
    );
  draw(LIPS_OUTER, 1);
  draw(LIPS_INNER, 0);
  const free: number[] = [];
  for (let i = 0; i < lips.data.length; i++)
    if (lips.data[i] && (covered.data[i] as number) < 0.05) free.push(i);
  const cheeks = CHEEKS.map((index) => pixelAt(lips, points, index)).filter(
    (i) => i !== undefined && (covered.data[i] as number) < 0.05,
  ) as number[];
  if (free.length < PIXELS || cheeks.length < CHEEKS.length / 2) return out;
  const skin = toneOf(own, cheeks);
  const [wanted, there] = [toneOf(own, free), toneOf(lit, free)];
  const red = Math.max(0, Math.min(BARE, LEAST_RED * (wanted.red - skin.red)) - (there.red - skin.red));
  const most = Math.max(PALE * skin.bright, Math.min(wanted.bright, PALEST * skin.bright));
  const darker = Math.max(0, there.bright - most);
  if (red === 0 && darker === 0) return out;
  const soft = blur(lips, SOFT * faceWidth);
  for (let i = 0; i < lips.data.length; i++) {
    const share = soft.data[i] as number;
    if (share === 0) continue;
    const redder = red * (lumaAt(lit, i) + DARK);
    // Their brightness stays with this mix.
    out[0].data[i] = share * (0.7 * redder - darker);
    out[1].data[i] = share * (-0.3 * redder - darker);
    out[2].data[i] = share * (-0.3 * redder - darker);
  }
  return out;
}

function toneOf(channels: Channels, pixels: readonly number[]): Tone {
  let [bright, red] = [0, 0];
  for (const i of pixels) {
    bright += lumaAt(channels, i) / pixels.length;
    red += ((channels[0].data[i] as number) - (channels[1].data[i] as number)) / pixels.length;
  }
  return { bright, red: red / (bright + DARK) };
}

function pixelAt({ width, height }: Plane, points: Float32Array, index: number): number | undefined {
  const [x, y] = [Math.floor(points[index * 2] as number), Math.floor(points[index * 2 + 1] as number)];
  return x >= 0 && y >= 0 && x < width && y < height ? y * width + x : undefined;
}

function lumaAt([r, g, b]: Channels, i: number): number {
  return luma(r.data[i] as number, g.data[i] as number, b.data[i] as number);
}
