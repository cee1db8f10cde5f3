import type { RgbImage } from '@semblance/vision/picture';
import { blur, type Plane, plane, sample, smoothstep } from '@semblance/vision/plane/plane';
import { select } from '@semblance/vision/plane/select';
import { luma } from './light.ts';

/** Width of the neighbourhood over which colour is averaged, as a share of the face width. */
const AROUND = 0.045;
/** Width over which the edge of the lips is softened, as a share of the face width. */
const LIPS_EDGE = 0.008;
/** Weight of the usual colour; it dominates where little skin is visible nearby. */
const USUAL_WEIGHT = 0.02;
/**
 * Range in which skin may differ in colour from the rest of its face, as natural logarithms of the ratios of red
 * and blue to green. Below the first value the cause is blood, tan or make-up; above the second it is light.
 */
const OWN_VARIATION = [0.1, 0.24] as const;
/** Brightness relative to the usual one from which a pixel's colour counts, and from which it counts fully. */
const TELLING = [0.4, 0.75] as const;
/** Number of pixels from which a median is taken. */
const SAMPLES = 600;
/** Fewest pixels of one kind (skin or lips) from which their usual colour is known. */
const LEAST = 15;
/** Added to each channel, so that dark pixels have no extreme ratios. */
const DARK = 8;
/** Step between the pixels that are examined, in both directions; light is smooth. */
const COARSENESS = 2;

/** Excess of red and blue over green, as natural logarithms of ratios, on a grid coarser by COARSENESS. */
export interface ColourCast {
  readonly red: Plane;
  readonly blue: Plane;
  /** Share of the skin that the light falls on. */
  readonly share: number;
}

/**
 * Finds coloured light on a part of a face. All skin belongs to one person, so a local deviation from its usual
 * colour balance is light. Lips have a colour of their own and the light of the skin around them.
 * @param skin 1 on visible skin, including lids and nose; dark pixels in it (lashes, nostrils, brow hair) count
 * little
 * @param lips 1 on visible lips, without the opening of the mouth
 * @returns undefined if no coloured light falls on the face
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
  const area = thinned(skin);
  let [most, lit, all] = [0, 0, 0];
  for (let i = 0; i < red.data.length; i++) {
    const r = red.data[i] as number;
    const b = blue.data[i] as number;
    const share = smoothstep(OWN_VARIATION[0], OWN_VARIATION[1], Math.hypot(r, b));
    most = Math.max(most, share);
    lit += share * (area.data[i] as number);
    all += area.data[i] as number;
    red.data[i] = r * share;
    blue.data[i] = b * share;
  }
  return most > 0 ? { red, blue, share: lit / all } : undefined;
}

/**
 * Returns how much the colour around each pixel differs from the usual colour of an area; undefined for an area
 * that is too small.
 */
function excess(image: RgbImage, all: Plane, faceWidth: number): Omit<ColourCast, 'share'> | undefined {
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

/** Returns the median of every `step`-th value of an area. */
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
 * Removes coloured light from a picture of a face in place. Brightness stays the same.
 * @param scale grid pixels per image pixel
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
