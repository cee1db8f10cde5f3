import type { Picture } from './png.ts';

/** Difference of a sample, of 255, above which a person sees that the pictures differ. */
const VISIBLE = 24;
/**
 * Least and greatest share of a portrait that a swapped face changes: more than specks, less than the whole
 * picture.
 */
const LEAST = 0.005;
const MOST = 0.5;

/** @returns share of the pixels that visibly differ, 0 to 1 */
export function changedPixels(a: Picture, b: Picture): number {
  let changed = 0;
  for (let i = 0; i < a.rgb.length; i += 3) {
    const differs = [0, 1, 2].some(
      (sample) => Math.abs((a.rgb[i + sample] ?? 0) - (b.rgb[i + sample] ?? 0)) > VISIBLE,
    );
    if (differs) changed++;
  }
  return changed / (a.width * a.height);
}

/**
 * Checks that exactly a part of a picture was replaced.
 * @returns share of the pixels that differ
 * @throws Error that says what is wrong
 */
export function expectSwapped(base: Picture, result: Picture): number {
  if (result.width !== base.width || result.height !== base.height)
    throw new Error(
      `it has ${result.width} x ${result.height} pixels, the base ${base.width} x ${base.height}`,
    );
  const share = changedPixels(base, result);
  const percent = `${(share * 100).toFixed(1)} % of its pixels differ from the base`;
  if (share < LEAST) throw new Error(`no face was swapped: ${percent}`);
  if (share > MOST) throw new Error(`more than a face was changed: ${percent}`);
  return share;
}
