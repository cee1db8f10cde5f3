import type { RgbImage } from '@semblance/vision/picture';
import { blur, type Plane, plane, sample, smoothstep } from '@semblance/vision/plane/plane';
import { select } from '@semblance/vision/plane/select';
import { luma } from './light.ts';

/** Width of the surroundings in which the colour is averaged, as a share of the face's. */
const AROUND = 0.045;
/** Width over which the lips' edge is softened, likewise. */
const LIPS_EDGE = 0.008;
/** States where little is seen around, the usual colour counts this much. */
const USUAL_WEIGHT = 0.02;
/**
 * How far skin may differ in colour from the rest of its face, as the natural logarithms of the ratios of red and of
 * blue to green: up to the first it is blood, tan and make-up, from the second on it is light.
 */
const OWN_VARIATION = [0.1, 0.24] as const;
/** Brightness relative to the usual one from which a pixel's colour says something, and from which it says all. */
const TELLING = [0.4, 0.75] as const;
/** From so many pixels a median is taken. */
const SAMPLES = 600;
/** So many of the pixels looked at must be of one kind, that their usual colour is known. */
const LEAST = 15;
/** Added to each channel, so that dark pixels have no wild ratios. */
const DARK = 8;
/** Light is smooth: every so many pixels, both ways, are looked at. */
const COARSENESS = 2;

/** Holds what red and blue have too much against green, natural logarithms of ratios, on a grid that much coarser. */
export interface ColourCast {
  readonly red: Plane;
  readonly blue: Plane;
}

/**
 * Finds coloured light that falls on a part of a face: skin is one person's, so it is what the skin's colours have in
 * a place beyond their usual balance. Lips are of one colour as well, and lit as the skin around them.
 * @param skin 1 on skin that is seen, that of the lids and the nose included; what is dark there (lashes, nostrils,
 * hair of the brows) says little
 * @param lips 1 on lips that are seen, without the opening of the mouth
 * @returns undefined if no coloured light falls on it
 */
export function findCast(
  image: RgbImage,
  { skin, lips }: { skin: Plane; lips: Plane },
  faceWidth: number,
): ColourCast | undefined {
  const onSkin = excess(image, skin, faceWidth);
  if (!onSkin) return undefined;
  const onLips = excess(image, lips, faceWidth);
  if (onLips) {
    const area = thinned(lips);
    const usual = { red: mean(onSkin.red, area), blue: mean(onSkin.blue, area) };
    const share = blur(area, (LIPS_EDGE * faceWidth) / COARSENESS);
    for (const channel of ['red', 'blue'] as const) {
      const values = onSkin[channel].data;
      for (let i = 0; i < values.length; i++) {
        const other = usual[channel] + (onLips[channel].data[i] as number);
        values[i] = (values[i] as number) + (other - (values[i] as number)) * (share.data[i] as number);
      }
    }
  }
  const { red, blue } = onSkin;
  let most = 0;
  for (let i = 0; i < red.data.length; i++) {
    const r = red.data[i] as number;
    const b = blue.data[i] as number;
    const share = smoothstep(OWN_VARIATION[0], OWN_VARIATION[1], Math.hypot(r, b));
    most = Math.max(most, share);
    red.data[i] = r * share;
    blue.data[i] = b * share;
  }
  return most > 0 ? { red, blue } : undefined;
}

/** By how much the colour around each pixel differs from the usual one of an area; undefined of too small an area. */
function excess(image: RgbImage, all: Plane, faceWidth: number): ColourCast | undefined {
  const area = thinned(all);
  const { width, height } = area;
  const red = plane(width, height);
  const blue = plane(width, height);
  const level = plane(width, height);
  let count = 0;
  for (let i = 0; i < area.data.length; i++) {
    if (!area.data[i]) continue;
    const o = (Math.floor(i / width) * image.width + (i % width)) * COARSENESS * 3;
    const r = (image.data[o] as number) + DARK;
    const g = (image.data[o + 1] as number) + DARK;
    const b = (image.data[o + 2] as number) + DARK;
    red.data[i] = Math.log(r / g);
    blue.data[i] = Math.log(b / g);
    level.data[i] = luma(r, g, b);
    count++;
  }
  if (count < LEAST) return undefined;
  const step = Math.max(1, Math.floor(count / SAMPLES));
  const [usualRed, usualBlue, usualLevel] = [red, blue, level].map((values) =>
    median(values, area, step),
  ) as [number, number, number];
  const weight = plane(width, height);
  for (let i = 0; i < area.data.length; i++) {
    if (!area.data[i]) continue;
    const w = smoothstep(TELLING[0], TELLING[1], (level.data[i] as number) / usualLevel);
    weight.data[i] = w;
    red.data[i] = w * ((red.data[i] as number) - usualRed);
    blue.data[i] = w * ((blue.data[i] as number) - usualBlue);
  }
  const sigma = (AROUND * faceWidth) / COARSENESS;
  const known = blur(weight, sigma);
  const local = (values: Plane): Plane => {
    const out = blur(values, sigma);
    for (let i = 0; i < out.data.length; i++)
      out.data[i] = (out.data[i] as number) / ((known.data[i] as number) + USUAL_WEIGHT);
    return out;
  };
  return { red: local(red), blue: local(blue) };
}

function thinned(source: Plane): Plane {
  const out = plane(Math.ceil(source.width / COARSENESS), Math.ceil(source.height / COARSENESS));
  for (let y = 0, o = 0; y < out.height; y++) {
    for (let x = 0; x < out.width; x++, o++)
      out.data[o] = source.data[(y * source.width + x) * COARSENESS] as number;
  }
  return out;
}

/** The median of every so many of an area's values. */
function median(values: Plane, area: Plane, step: number): number {
  const some: number[] = [];
  let count = 0;
  for (let i = 0; i < area.data.length; i++) {
    if (area.data[i] && count++ % step === 0) some.push(values.data[i] as number);
  }
  return select(Float64Array.from(some), some.length >> 1);
}

function mean(values: Plane, area: Plane): number {
  let sum = 0;
  let count = 0;
  for (let i = 0; i < area.data.length; i++) {
    if (!area.data[i]) continue;
    sum += values.data[i] as number;
    count++;
  }
  return sum / count;
}

/**
 * Takes coloured light off a picture of a face, which it changes; brightness stays.
 * @param scale pixels of the grid on which it was found per pixel of the image
 */
export function takeOffCast(image: RgbImage, { red, blue }: ColourCast, scale: number): void {
  const { width, height, data } = image;
  const toCast = scale / COARSENESS;
  for (let y = 0, o = 0; y < height; y++) {
    for (let x = 0; x < width; x++, o += 3) {
      const gx = (x + 0.5) * toCast;
      const gy = (y + 0.5) * toCast;
      const tooRed = sample(red, gx, gy);
      const tooBlue = sample(blue, gx, gy);
      if (Math.abs(tooRed) + Math.abs(tooBlue) < 0.005) continue;
      const r0 = data[o] as number;
      const g0 = data[o + 1] as number;
      const b0 = data[o + 2] as number;
      const r = Math.max(0, (r0 + DARK) * Math.exp(-tooRed) - DARK);
      const b = Math.max(0, (b0 + DARK) * Math.exp(-tooBlue) - DARK);
      const level = (luma(r0, g0, b0) + 1) / (luma(r, g0, b) + 1);
      data[o] = r * level;
      data[o + 1] = g0 * level;
      data[o + 2] = b * level;
    }
  }
}
