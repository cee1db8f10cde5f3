import type { Rect } from '@semblance/media/yuv';

/** Words per square of four pixels in {@link TextureData.chroma}. */
export const CHROMA_STRIDE = 2;

/**
 * The pixels of a texture. Two values share a word, so that both are averaged at once: a product with up to 256 does
 * not carry from the lower value into the upper one.
 */
export interface TextureData {
  /**
   * For each pixel what is added to the frame's own brightness, see {@link packLuma}, and in the upper bits the share
   * of that own brightness which it replaces.
   */
  readonly luma: Int32Array;
  /**
   * For each square of four pixels what is added to both of the frame's colour values, plus 128; then the share that
   * it replaces, 0–255.
   */
  readonly chroma: Int32Array;
  /**
   * Share of the swap at each pixel of a coarser grid, see {@link ALPHA_STEP}: so far the frame's own pixels move
   * with the features.
   */
  readonly alpha: Float32Array;
}

/** Texture pixels per pixel of {@link TextureData.alpha}. */
export const ALPHA_STEP = 4;
/** What is added may darken, so a lane holds it above this value, in steps of a third. */
const LUMA_BIAS = 64;
export const LUMA_STEPS = 3;
/** Value of a share of 1, and its first bit. */
export const LUMA_SHARE = 63;
export const LUMA_BIT = 18;
const LUMA_MOST = 1023;
/** Bits of both lanes of {@link TextureData.luma}, and half of the last bit that an average by 256 drops. */
export const LUMA_LANES = (LUMA_SHARE << LUMA_BIT) | LUMA_MOST;
export const LUMA_HALF = (128 << LUMA_BIT) | 128;
/** A pixel that changes nothing. */
export const LUMA_NONE = LUMA_BIAS * LUMA_STEPS;

/**
 * Packs one pixel.
 * @param added brightness that is added, from −64 to 277
 * @param share of the frame's own brightness that it replaces, 0–1
 */
export function packLuma(added: number, share: number): number {
  const value = Math.min(LUMA_MOST, Math.max(0, (added + LUMA_BIAS) * LUMA_STEPS + 0.5)) | 0;
  return value | ((Math.min(1, Math.max(0, share)) * LUMA_SHARE + 0.5) << LUMA_BIT);
}

export interface SizedTexture extends TextureData {
  /** Side in pixels; even. */
  readonly size: number;
  /** Part of it that contains the face; even sides and corners. */
  readonly box: Rect;
}

/** Allocates a texture without a face in memory that all threads can read. */
export function emptyTexture(size: number): TextureData {
  const half = size >> 1;
  const words = (count: number) => new Int32Array(new SharedArrayBuffer(count * 4));
  const chroma = words(half * half * CHROMA_STRIDE);
  for (let i = 0; i < chroma.length; i += CHROMA_STRIDE) chroma[i] = 0x00800080;
  const side = Math.ceil(size / ALPHA_STEP);
  const alpha = new Float32Array(new SharedArrayBuffer(side * side * 4));
  return { luma: words(size * size).fill(LUMA_NONE), chroma, alpha };
}

let luma = new Int32Array(0);
let chroma = new Int32Array(0);
let alpha = new Float32Array(0);

/**
 * Interpolates between two textures of one size. The next call reuses the memory.
 * @param share 0 is the first, 1 the second
 */
export function blendTextures(from: SizedTexture, to: SizedTexture, share: number): TextureData {
  const part = Math.round(256 * share);
  if (part === 0 || from.luma === to.luma) return from;
  if (part === 256) return to;
  if (luma.length < from.luma.length) luma = new Int32Array(from.luma.length);
  if (chroma.length < from.chroma.length) chroma = new Int32Array(from.chroma.length);
  if (alpha.length < from.alpha.length) alpha = new Float32Array(from.alpha.length);
  for (let i = 0; i < from.alpha.length; i++)
    alpha[i] = (from.alpha[i] as number) * (1 - share) + (to.alpha[i] as number) * share;
  const { size, box } = from;
  // One more pixel on each side, because pixels are interpolated.
  const [left, top] = [Math.max(0, box.x - 2), Math.max(0, box.y - 2)];
  const [right, bottom] = [Math.min(size, box.x + box.width + 2), Math.min(size, box.y + box.height + 2)];
  const lanes = { mask: LUMA_LANES, half: LUMA_HALF };
  for (let y = top; y < bottom; y++)
    mix(luma, from.luma, to.luma, part, y * size + left, y * size + right, lanes);
  const half = size >> 1;
  for (let y = top >> 1; y < bottom >> 1; y++) {
    const start = y * half;
    const [first, end] = [(start + (left >> 1)) * CHROMA_STRIDE, (start + (right >> 1)) * CHROMA_STRIDE];
    mix(chroma, from.chroma, to.chroma, part, first, end, { mask: 0x00ff00ff, half: 0x00800080 });
  }
  return { luma, chroma, alpha };
}

function mix(
  out: Int32Array,
  a: Int32Array,
  b: Int32Array,
  part: number,
  start: number,
  end: number,
  { mask, half }: { readonly mask: number; readonly half: number },
): void {
  const rest = 256 - part;
  for (let i = start; i < end; i++) {
    const sum = Math.imul(a[i] as number, rest) + Math.imul(b[i] as number, part) + half;
    out[i] = (sum >>> 8) & mask;
  }
}
