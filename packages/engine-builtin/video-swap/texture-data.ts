import type { Rect } from '@semblance/media/yuv';

/** Words per square of four pixels in {@link TextureData.chroma}. */
export const CHROMA_STRIDE = 2;

/**
 * The pixels of a texture. Two values share the halves of a word, so that both are averaged at once: a product with
 * up to 256 does not carry from the lower half into the upper one.
 */
export interface TextureData {
  /** For each pixel its brightness times the share of the new face, and in the upper half that share, 0–255. */
  readonly luma: Int32Array;
  /**
   * For each square of four pixels both colour values minus 128, times the share, plus 128; then the share, 0–255.
   */
  readonly chroma: Int32Array;
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
  // Beside the face the value is 128 with no share: no colour.
  for (let i = 0; i < chroma.length; i += CHROMA_STRIDE) chroma[i] = 0x00800080;
  return { luma: words(size * size), chroma };
}

let luma = new Int32Array(0);
let chroma = new Int32Array(0);

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
  const { size, box } = from;
  // One more pixel on each side, because pixels are interpolated.
  const [left, top] = [Math.max(0, box.x - 2), Math.max(0, box.y - 2)];
  const [right, bottom] = [Math.min(size, box.x + box.width + 2), Math.min(size, box.y + box.height + 2)];
  for (let y = top; y < bottom; y++) mix(luma, from.luma, to.luma, part, y * size + left, y * size + right);
  const half = size >> 1;
  for (let y = top >> 1; y < bottom >> 1; y++) {
    const start = y * half;
    const [first, end] = [(start + (left >> 1)) * CHROMA_STRIDE, (start + (right >> 1)) * CHROMA_STRIDE];
    mix(chroma, from.chroma, to.chroma, part, first, end);
  }
  return { luma, chroma };
}

function mix(out: Int32Array, a: Int32Array, b: Int32Array, part: number, start: number, end: number): void {
  const rest = 256 - part;
  for (let i = start; i < end; i++) {
    const sum = Math.imul(a[i] as number, rest) + Math.imul(b[i] as number, part) + 0x00800080;
    out[i] = (sum >>> 8) & 0x00ff00ff;
  }
}
