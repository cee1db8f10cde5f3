import { type Plane, plane, sample, smoothstep } from '@semblance/vision/plane/plane';
import { guidedLine } from '../animate/matte.ts';
import type { Planes } from '../animate/openings.ts';
import type { FaceLight } from './head-light.ts';
import type { HeadSpot } from './head-place.ts';

/** Chroma distance from the person's skin within which a pixel is skin, and beyond which it is not. */
const LIKE = [9, 18] as const;
/** Eye distance in cells of the grid on which skin is looked for, and the radius over which it is smoothed. */
const CELLS = 20;
const SMOOTH = 4;
/** Smallest contrast, as the square of levels, that counts as an edge of the skin. */
const CONTRAST = 150;

/** A part of a frame on a coarse grid: how skin depends on brightness in each cell. */
interface SkinGrid {
  readonly left: number;
  readonly top: number;
  /** Chroma pixels per cell. */
  readonly step: number;
  readonly slope: Plane;
  readonly offset: Plane;
}

/**
 * Gives the person's bare neck and chest the complexion of the new head.
 * @param spot of the head in the frame
 * @param chin distance of the chin from the eyes, in eye distances
 */
export function tintNeck(
  frame: Planes,
  distance: Plane,
  colours: { readonly from: FaceLight; readonly to: FaceLight },
  spot: HeadSpot,
  chin: number,
): void {
  const { from, to } = colours;
  const grid = neckSkin(frame, distance, from, { spot, chin });
  if (!grid) return;
  const { left, top, step, slope, offset } = grid;
  const gain = Math.min(2, Math.max(0.5, (to.y - 16) / Math.max(8, from.y - 16)));
  const right = Math.min(distance.width, left + step * slope.width);
  const bottom = Math.min(distance.height, top + step * slope.height);
  for (let y = top; y < bottom; y++) {
    for (let x = left; x < right; x++) {
      const i = y * distance.width + x;
      if ((distance.data[i] as number) > 2) continue;
      const [gx, gy] = [(x - left + 0.5) / step, (y - top + 0.5) / step];
      const o = 2 * (y * frame.y.width + x);
      const value = sample(slope, gx, gy) * (frame.y.data[o] as number) + sample(offset, gx, gy);
      const part = smoothstep(0.15, 0.6, value);
      if (part < 0.01) continue;
      frame.u.data[i] = (frame.u.data[i] as number) + part * (to.u - from.u) + 0.5;
      frame.v.data[i] = (frame.v.data[i] as number) + part * (to.v - from.v) + 0.5;
      for (const at of [o, o + 1, o + frame.y.width, o + frame.y.width + 1]) {
        const was = frame.y.data[at] as number;
        const lit = Math.min(235, 16 + (was - 16) * gain);
        frame.y.data[at] = was + part * (lit - was) + 0.5;
      }
    }
  }
}

/** Returns where skin of the person's neck is. Its edge follows brightness: blotches and shine belong to it. */
function neckSkin(
  frame: Planes,
  distance: Plane,
  skin: FaceLight,
  { spot, chin }: { readonly spot: HeadSpot; readonly chin: number },
): SkinGrid | undefined {
  const { iod } = spot;
  const step = Math.max(1, Math.round(iod / 2 / CELLS));
  const reach = (chin + 3) * iod;
  const bound = (value: number, most: number): number => Math.min(most, Math.max(0, Math.floor(value / 2)));
  const [left, right] = [bound(spot.x - reach, distance.width), bound(spot.x + reach, distance.width)];
  const [top, bottom] = [bound(spot.y - iod, distance.height), bound(spot.y + reach, distance.height)];
  const [width, height] = [Math.ceil((right - left) / step), Math.ceil((bottom - top) / step)];
  if (width < 2 || height < 2) return undefined;
  const [share, light] = [plane(width, height), plane(width, height)];
  const [cos, sin] = [Math.cos(spot.angle), Math.sin(spot.angle)];
  for (let row = 0; row < height; row++) {
    for (let column = 0; column < width; column++) {
      const x = Math.min(right - 1, left + column * step + (step >> 1));
      const y = Math.min(bottom - 1, top + row * step + (step >> 1));
      const g = row * width + column;
      light.data[g] = frame.y.data[2 * (y * frame.y.width + x)] as number;
      if ((distance.data[y * distance.width + x] as number) > 2) continue;
      const [dx, dy] = [2 * x + 1 - spot.x, 2 * y + 1 - spot.y];
      const down = (dx * cos + dy * sin) / iod;
      const across = Math.abs(dy * cos - dx * sin) / iod;
      const where =
        smoothstep(0.4 * chin, 0.7 * chin, down) *
        (1 - smoothstep(chin + 1.8, chin + 2.8, down)) *
        (1 - smoothstep(1.5, 2.2, across - 0.5 * Math.max(0, down - chin)));
      if (where > 0) share.data[g] = where * likeSkin(frame, skin, x, y);
    }
  }
  return { left, top, step, ...guidedLine(light, share, SMOOTH, CONTRAST) };
}

/** Returns from 0 to 1 how well a chroma pixel fits this skin in light or shade. */
function likeSkin(frame: Planes, skin: FaceLight, x: number, y: number): number {
  const light = frame.y.data[2 * (y * frame.y.width + x)] as number;
  const i = y * frame.u.width + x;
  const shade = Math.log(Math.max(1, light - 16) / Math.max(8, skin.y - 16));
  // In the shade under a chin colours are weaker.
  const pale = Math.min(1, Math.max(0.35, Math.exp(shade)));
  const far = Math.hypot(
    (frame.u.data[i] as number) - 128 - pale * (skin.u - 128),
    (frame.v.data[i] as number) - 128 - pale * (skin.v - 128),
  );
  const bright = 1 - smoothstep(1.1, 1.7, Math.abs(shade));
  return bright * (1 - smoothstep(LIKE[0], LIKE[1], far / Math.max(0.6, pale)));
}
