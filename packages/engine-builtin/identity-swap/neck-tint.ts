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

/** Where the neck is looked at: below the chin and to both sides, and the distance of two places, in eye distances. */
const LOOKED = { from: 0.1, to: 0.5, wide: 0.4, step: 0.05 } as const;
/** Share of these places that must show skin. */
const LEAST_SKIN = 0.4;
/** Most by which the hue of a neck differs from that of its face, in radians, and how much weaker or stronger it is. */
const MOST_HUE = 0.3;
const STRENGTH = [0.4, 1.7] as const;
/** Light of a neck against that of its face. */
const SHADE = [0.5, 1] as const;
/** Most by which its colour differs from that of its face once both are of one person, in levels. */
const APART = 2;
/** Power of its light by which the colour of skin fades in the shade. */
const FADING = 0.75;

/** Brightness and colour of skin. */
export type Skin = Pick<FaceLight, 'y' | 'u' | 'v'>;

/**
 * Returns the skin of the person's neck, which make-up, light or the sun often make another than that of the face;
 * undefined where the neck is covered.
 */
export function neckSkin(
  frame: Planes,
  distance: Plane,
  face: Skin,
  spot: HeadSpot,
  chin: number,
): Skin | undefined {
  const [cos, sin] = [Math.cos(spot.angle) * spot.iod, Math.sin(spot.angle) * spot.iod];
  const found: [number, number, number][] = [];
  let looked = 0;
  for (let down = chin + LOOKED.from; down <= chin + LOOKED.to; down += LOOKED.step) {
    for (let right = -LOOKED.wide; right <= LOOKED.wide; right += LOOKED.step) {
      looked++;
      const x = Math.floor((spot.x + down * cos + right * sin) / 2);
      const y = Math.floor((spot.y + down * sin - right * cos) / 2);
      if (x < 0 || y < 0 || x >= distance.width || y >= distance.height) continue;
      if ((distance.data[y * distance.width + x] as number) > 1) continue;
      const i = y * frame.u.width + x;
      const skin = {
        y: frame.y.data[2 * (y * frame.y.width + x)] as number,
        u: frame.u.data[i] as number,
        v: frame.v.data[i] as number,
      };
      if (mayBeSkin(skin, face)) found.push([skin.y, skin.u, skin.v]);
    }
  }
  if (found.length < LEAST_SKIN * looked) return undefined;
  const middle = (k: 0 | 1 | 2): number =>
    found.map((values) => values[k]).sort((a, b) => a - b)[found.length >> 1] as number;
  return { y: middle(0), u: middle(1), v: middle(2) };
}

/** Returns whether a colour may be skin of the person with this face: of its hue, and neither grey nor paint. */
function mayBeSkin(here: Skin, face: Skin): boolean {
  const [u, v] = [here.u - 128, here.v - 128];
  const [ofU, ofV] = [face.u - 128, face.v - 128];
  const strength = Math.hypot(u, v) / Math.max(1, Math.hypot(ofU, ofV));
  const turn = Math.abs(Math.atan2(u * ofV - v * ofU, u * ofU + v * ofV));
  const shade = (here.y - 16) / Math.max(8, face.y - 16);
  return turn < MOST_HUE && strength > STRENGTH[0] && strength < STRENGTH[1] && shade > 0.25 && shade < 1.6;
}

/** Returns the skin of the neck of a new head: to its face as the person's neck is to the person's face, within reason. */
function newNeck(face: Skin, neck: Skin, head: Skin): Skin {
  const shade = Math.min(SHADE[1], Math.max(SHADE[0], (neck.y - 16) / Math.max(8, face.y - 16)));
  const pale = shade ** FADING;
  const colour = (key: 'u' | 'v'): number => {
    const own = neck[key] - 128 - pale * (face[key] - 128);
    return 128 + pale * (head[key] - 128) + Math.min(APART, Math.max(-APART, own));
  };
  return { y: 16 + (head.y - 16) * shade, u: colour('u'), v: colour('v') };
}

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
 * @param colours of the person's face and neck and of the new head; undefined: the neck was not seen, or has the
 * colour of the face
 * @param spot of the head in the frame
 * @param chin distance of the chin from the eyes, in eye distances
 */
export function tintNeck(
  frame: Planes,
  distance: Plane,
  colours: { readonly from: Skin; readonly neck?: Skin | undefined; readonly to: Skin },
  spot: HeadSpot,
  chin: number,
): void {
  const from = colours.neck ?? colours.from;
  const to = colours.neck ? newNeck(colours.from, colours.neck, colours.to) : colours.to;
  const grid = skinGrid(frame, distance, from, { spot, chin });
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
function skinGrid(
  frame: Planes,
  distance: Plane,
  skin: Skin,
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
function likeSkin(frame: Planes, skin: Skin, x: number, y: number): number {
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
