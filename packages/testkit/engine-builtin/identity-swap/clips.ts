import type { ColorTags, Media } from '@semblance/media/types';
import { rgbToRegion } from '@semblance/media/yuv';
import { type Drawn, type Dress, drawFigure, type Head, type Stance } from './figure.ts';

const COLOR: ColorTags = { range: 'tv', space: 'bt709', primaries: 'bt709', transfer: 'bt709' };

/**
 * Returns a picture of a room with a brick wall, a picture, a lamp and a floor of boards, seen by a camera at a
 * position.
 */
export function room(
  width: number,
  height: number,
  camera: { x: number; y: number } = { x: 0, y: 0 },
): Uint8Array {
  const out = new Uint8ClampedArray(width * height * 3);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      // Coordinates are in units of the picture's height, so that every size shows the same view.
      const u = (x + 0.5) / height + camera.x;
      const v = (y + 0.5) / height + camera.y;
      const o = (y * width + x) * 3;
      const [r, g, b] = colourOf(u, v);
      const light = 1.08 - 0.22 * Math.hypot(u - 0.7, v - 0.2);
      out[o] = r * light;
      out[o + 1] = g * light;
      out[o + 2] = b * light;
    }
  }
  return new Uint8Array(out.buffer);
}

function colourOf(u: number, v: number): [number, number, number] {
  const grain = 7 * Math.sin(91 * u + 13 * Math.sin(37 * v)) * Math.sin(83 * v + 5 * Math.sin(29 * u));
  if (v > 0.8) {
    const board = Math.floor(u / (0.12 + 0.2 * (v - 0.8)) + 20);
    const tone = 120 + ((board * 37) % 5) * 9 + grain;
    return [tone, tone * 0.72, tone * 0.48];
  }
  if (v > 0.77) return [226, 222, 212];
  if (Math.abs(u - 0.35) < 0.16 && Math.abs(v - 0.28) < 0.13) {
    const frame = Math.abs(u - 0.35) > 0.14 || Math.abs(v - 0.28) > 0.11;
    return frame ? [88, 62, 36] : [90 + 160 * (v - 0.1), 130 + 40 * Math.sin(40 * u), 190 - 300 * (v - 0.28)];
  }
  if (Math.hypot(u - 1.35, (v - 0.3) * 1.4) < 0.1) return [250, 236, 190];
  if (Math.abs(u - 1.35) < 0.012 && v > 0.3) return [60, 60, 66];
  const row = Math.floor(v / 0.045);
  const column = (u + (row % 2) * 0.055) / 0.11;
  const joint = v / 0.045 - row < 0.09 || column - Math.floor(column) < 0.04;
  const tone = joint ? 168 : 196 + ((Math.floor(column) * 31 + row * 17) % 7) * 4 + grain;
  return [tone, tone * 0.93, tone * 0.86];
}

export interface Clip {
  readonly width: number;
  readonly height: number;
  readonly frames: number;
  readonly rate: number;
  readonly dress: Dress;
  readonly head: Head;
  /** @param t seconds */
  readonly stance: (t: number) => Stance | undefined;
  readonly camera?: (t: number) => { x: number; y: number };
}

/** Returns one frame before encoding: with the figure, its mask, and the room without the figure. */
export function clipFrame(
  clip: Clip,
  index: number,
): Drawn & { readonly empty: Uint8Array; readonly stance?: Stance } {
  const t = index / clip.rate;
  const { width, height } = clip;
  const empty = room(width, height, clip.camera?.(t));
  const stance = clip.stance(t);
  if (!stance) return { rgb: empty, mask: new Uint8Array(width * height), empty };
  return { ...drawFigure(width, height, stance, clip, empty), empty, stance };
}

/** Returns the stances of a person who walks from left to right and waves. */
export function walker(width: number, height: number): (t: number) => Stance {
  return (t) => {
    const step = Math.sin(t * 5);
    return {
      x: width * (0.24 + 0.13 * t),
      y: height * 0.965 - Math.abs(step) * 0.008 * height,
      height: 0.9 * height,
      arms: [
        0.25 + 0.25 * step,
        0.2 + 0.35 * step,
        1.5 + 0.7 * Math.sin(t * 3),
        2 + 0.8 * Math.sin(t * 3 + 0.4),
      ],
      legs: [
        0.16 + 0.22 * step,
        0.08 - 0.12 * Math.max(0, step),
        0.16 - 0.22 * step,
        0.08 + 0.12 * Math.min(0, step),
      ],
      head: 0.15 * Math.sin(t * 2),
    };
  };
}

/** Writes a clip, with the sound of another file if one is given. */
export async function writeClip(media: Media, clip: Clip, path: string, audio?: string): Promise<void> {
  await writeFrames(media, clip, path, (i) => clipFrame(clip, i).rgb, audio);
}

/** Writes a clip of any frames. */
export async function writeFrames(
  media: Media,
  { width, height, rate, frames }: Pick<Clip, 'width' | 'height' | 'rate' | 'frames'>,
  path: string,
  rgbAt: (index: number) => Uint8Array,
  audio?: string,
): Promise<void> {
  const writer = await media.openWriter({
    path,
    width,
    height,
    color: COLOR,
    frameRate: rate,
    signal: new AbortController().signal,
    ...(audio ? { audio: { path: audio } } : {}),
  });
  const data = new Uint8Array((width * height * 3) / 2);
  for (let i = 0; i < frames; i++) {
    rgbToRegion({ width, height, data }, { x: 0, y: 0, width, height }, rgbAt(i), COLOR);
    await writer.write({ ptsUs: Math.round((i * 1e6) / rate), data });
  }
  await writer.finish(Math.round((frames * 1e6) / rate));
}
