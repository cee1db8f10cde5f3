import { pointOf } from '@semblance/vision/face-mesh';
import type { RgbImage } from '@semblance/vision/picture';
import { flood } from '@semblance/vision/plane/flood';
import { blur, grow, type Plane, plane } from '@semblance/vision/plane/plane';
import type { FaceFrame } from './face-frame.ts';

/** Mesh points at the lobes of the ears, the other one of each giving the way outwards. */
const LOBES = [
  [132, 361],
  [361, 132],
] as const;
/** Reach of what hangs from an ear, and the place of its middle outwards and below the lobe, in eye distances. */
const REACH = 0.75;
const OUTWARDS = 0.15;
const BELOW = 0.15;
/** Share of the person up to which a pixel may be background, and its least distance from the person, in eye distances. */
const FREE = 0.3;
const FRINGE = 0.12;
/** Width over which the background's colour is averaged, in eye distances. */
const AROUND = 0.3;
/** Greatest spread of an even background, in levels, and how many spreads and levels an earring differs from it. */
const EVEN = 9;
const SPREADS = 4;
const LEVELS = 22;
/** Width of the fringe of the person, in pixels. */
const NARROW = 1.5;
/** Greatest area of an earring beyond the person, in squared eye distances. */
const MOST = 0.15;

/**
 * Returns the share of the person with what hangs from its ears before an even background, such as hoops: thin things
 * unlike that background, connected with the person, that end near the ear. What goes on beyond is no earring.
 * @param matte share of the person in each pixel of `image`
 */
export function withHanging(
  image: RgbImage,
  matte: Plane,
  { points, frame }: { readonly points: Float32Array; readonly frame: FaceFrame },
): Plane {
  const { iod, axes } = frame;
  const norm = Math.hypot(axes[1] as number, axes[4] as number);
  const down = { x: (axes[1] as number) / norm, y: (axes[4] as number) / norm };
  const out = { ...matte, data: matte.data.slice() };
  for (const [lobe, other] of LOBES) {
    const [at, across] = [pointOf(points, lobe), pointOf(points, other)];
    const width = Math.max(1, Math.hypot(at.x - across.x, at.y - across.y));
    const x = at.x + iod * (OUTWARDS * ((at.x - across.x) / width) + BELOW * down.x);
    const y = at.y + iod * (OUTWARDS * ((at.y - across.y) / width) + BELOW * down.y);
    for (const i of earring(image, matte, { x, y }, iod)) out.data[i] = 1;
  }
  return out;
}

/** Returns the pixels of an earring around a place, beyond the person. */
function earring(
  image: RgbImage,
  matte: Plane,
  { x, y }: { readonly x: number; readonly y: number },
  iod: number,
): number[] {
  const { width, height } = matte;
  const away = (i: number): number =>
    Math.hypot((i % width) + 0.5 - x, Math.floor(i / width) + 0.5 - y) / iod;
  const solid = plane(width, height);
  const near: number[] = [];
  for (let i = 0; i < solid.data.length; i++) {
    solid.data[i] = (matte.data[i] as number) > FREE ? 1 : 0;
    if (away(i) <= REACH) near.push(i);
  }
  const unlike = unlikeBackground(image, grow(solid, FRINGE * iod), near, iod);
  if (!unlike) return [];
  for (const i of near) if (solid.data[i]) unlike.data[i] = 1;
  const seeds = near.filter((i) => solid.data[i]);
  const reached = flood(width, height, seeds, (i) => unlike.data[i] === 1);
  const found = near.filter((i) => reached[i] && !solid.data[i]);
  // The fringe of the person, which connects all that is beside it, is left out.
  const fringe = grow(solid, NARROW);
  const parts = plane(width, height);
  for (const i of found) parts.data[i] = fringe.data[i] ? 0 : 1;
  const kept = plane(width, height);
  for (const start of found) {
    if (!parts.data[start]) continue;
    const marked = flood(width, height, [start], (i) => parts.data[i] === 1);
    const part = found.filter((i) => marked[i]);
    for (const i of part) parts.data[i] = 0;
    const ends = part.every((i) => away(i) < REACH - NARROW / iod);
    if (ends && part.length < MOST * iod * iod) for (const i of part) kept.data[i] = 1;
  }
  const whole = grow(kept, 2 * NARROW);
  return found.filter((i) => whole.data[i]);
}

/**
 * Returns 1 on the pixels of `near` that are unlike the background around them; undefined where that is not even.
 * @param person 1 on the person and its fringe
 */
function unlikeBackground(
  { data, width, height }: RgbImage,
  person: Plane,
  near: readonly number[],
  iod: number,
): Plane | undefined {
  const weights = plane(width, height);
  for (const i of near) weights.data[i] = 1 - (person.data[i] as number);
  const far = new Float32Array(width * height);
  let spread = 0;
  // Each time without what was unlike the time before, which is the earring itself.
  for (const last of [false, false, true]) {
    const sure = blur(weights, AROUND * iod);
    far.fill(0);
    for (let c = 0; c < 3; c++) {
      const channel = plane(width, height);
      for (const i of near) channel.data[i] = (weights.data[i] as number) * (data[i * 3 + c] as number);
      const mean = blur(channel, AROUND * iod);
      for (const i of near)
        far[i] =
          (far[i] as number) +
          ((data[i * 3 + c] as number) - (mean.data[i] as number) / Math.max(1e-3, sure.data[i] as number)) **
            2;
    }
    let [sum, all] = [0, 0];
    for (const i of near) {
      sum += (weights.data[i] as number) * (far[i] as number);
      all += weights.data[i] as number;
    }
    if (all < 0.05 * near.length) return undefined;
    spread = Math.sqrt(sum / all);
    if (!last)
      for (const i of near) if (Math.sqrt(far[i] as number) > Math.max(LEVELS, spread)) weights.data[i] = 0;
  }
  if (spread > EVEN) return undefined;
  const out = plane(width, height);
  for (const i of near) if (Math.sqrt(far[i] as number) > Math.max(LEVELS, SPREADS * spread)) out.data[i] = 1;
  return out;
}
