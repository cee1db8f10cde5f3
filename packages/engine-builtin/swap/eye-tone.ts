import { EYES } from '@semblance/vision/gaze';
import { blur, fillPolygon, type Plane, plane, smoothstep } from '@semblance/vision/plane/plane';
import { type Channels, luma } from './light.ts';

/** Share of an eye's pixels that are darker than its white, and than its dark parts. */
const WHITE = 0.85;
const DARK = 0.1;
/** Least difference of the two, in levels, that shows an eye, and fewest pixels. */
const LEAST = 8;
const PIXELS = 12;
/** Share of the difference of both whites that goes. */
const STRENGTH = 0.8;
/** Largest change of a channel by the colour of the white, in levels. */
const TINT = 12;
/** Softness of the lids' edge, as a share of the face width. */
const SOFT = 0.006;

interface EyeTone {
  readonly dark: number;
  readonly white: number;
  /** Red, green and blue of the white, as differences from its brightness. */
  readonly colour: readonly [number, number, number];
}

/**
 * Returns what must be added to the source's eyes, so that their white is no darker than the target's and has its
 * colour. The light on skin says little about it: it is wet, and lies in the shade of lids and brows.
 * @param own the target; `lit` is the source in its light, all on the work grid
 * @param points x and y of each mesh point on that grid, stride 2
 */
export function eyeTone(own: Channels, lit: Channels, points: Float32Array, faceWidth: number): Channels {
  const { width, height } = lit[0];
  const out: Channels = [plane(width, height), plane(width, height), plane(width, height)];
  const open = plane(width, height);
  for (const { outline } of EYES)
    fillPolygon(
      open,
      outline.flatMap((index) => [points[index * 2] as number, points[index * 2 + 1] as number]),
    );
  const [wanted, there] = [toneOf(own, open), toneOf(lit, open)];
  if (!wanted || !there) return out;
  const brighter = Math.max(0, wanted.white - there.white);
  const soft = blur(open, SOFT * faceWidth);
  for (let i = 0; i < open.data.length; i++) {
    if (!open.data[i]) continue;
    // An iris keeps its colour, and a pupil its depth.
    const white = smoothstep(0.35, 0.8, (lumaAt(lit, i) - there.dark) / (there.white - there.dark));
    const share = STRENGTH * white * (soft.data[i] as number);
    for (let c = 0; c < 3; c++) {
      const apart = (wanted.colour[c] as number) - (there.colour[c] as number);
      (out[c] as Plane).data[i] = share * (brighter + Math.min(TINT, Math.max(-TINT, apart)));
    }
  }
  return out;
}

function toneOf(channels: Channels, open: Plane): EyeTone | undefined {
  const inside: number[] = [];
  for (let i = 0; i < open.data.length; i++) if (open.data[i]) inside.push(i);
  if (inside.length < PIXELS) return undefined;
  const bright = inside.map((i) => lumaAt(channels, i)).sort((a, b) => a - b);
  const [dark, white] = [DARK, WHITE].map((share) => bright[Math.floor(share * bright.length)]) as [
    number,
    number,
  ];
  if (white - dark < LEAST) return undefined;
  const whites = inside.filter((i) => lumaAt(channels, i) >= white);
  const colour = channels.map(
    (channel) =>
      whites.reduce((sum, i) => sum + (channel.data[i] as number) - lumaAt(channels, i), 0) / whites.length,
  ) as [number, number, number];
  return { dark, white, colour };
}

function lumaAt([r, g, b]: Channels, i: number): number {
  return luma(r.data[i] as number, g.data[i] as number, b.data[i] as number);
}
