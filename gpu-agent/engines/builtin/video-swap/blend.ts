import type { FaceTexture } from './texture.ts';

let luma = new Uint8Array(0);
let chroma = new Uint8Array(0);

/**
 * The texture between two of one size. Its memory is used again by the next call.
 * @param share 0 is the first, 1 the second
 */
export function blendTextures(
  from: FaceTexture,
  to: FaceTexture,
  share: number,
): Pick<FaceTexture, 'luma' | 'chroma'> {
  const part = Math.round(256 * share);
  if (part === 0 || from.luma === to.luma) return from;
  if (part === 256) return to;
  if (luma.length < from.luma.length) luma = new Uint8Array(from.luma.length);
  if (chroma.length < from.chroma.length) chroma = new Uint8Array(from.chroma.length);
  const { size, box } = from;
  for (let y = box.y; y < box.y + box.height; y++) {
    const start = (y * size + box.x) * 2;
    mix(luma, from.luma, to.luma, part, start, start + box.width * 2);
  }
  const half = size >> 1;
  for (let y = box.y >> 1; y < (box.y + box.height) >> 1; y++) {
    const start = (y * half + (box.x >> 1)) * 3;
    mix(chroma, from.chroma, to.chroma, part, start, start + (box.width >> 1) * 3);
  }
  return { luma, chroma };
}

function mix(out: Uint8Array, a: Uint8Array, b: Uint8Array, part: number, start: number, end: number): void {
  for (let i = start; i < end; i++) {
    const from = a[i] as number;
    out[i] = from + ((((b[i] as number) - from) * part + 128) >> 8);
  }
}
