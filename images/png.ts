import { inflateSync } from 'node:zlib';

const SIGNATURE = Buffer.from('89504e470d0a1a0a', 'hex');
/** PNG colour type → samples per pixel. */
const SAMPLES: Readonly<Record<number, number>> = { 2: 3, 6: 4 };

export interface Picture {
  readonly width: number;
  readonly height: number;
  /** Red, green and blue of each pixel, row by row. */
  readonly rgb: Uint8Array;
}

/**
 * Decodes a PNG of 8-bit RGB or RGBA without interlacing (PNG specification, third edition), as the shipped
 * portrait and its swap are. The service image has no image library, because it would be needed only here.
 * @throws Error for any other PNG or file
 */
export function decodePng(bytes: Uint8Array): Picture {
  const data = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (!data.subarray(0, 8).equals(SIGNATURE)) throw new Error('it is not a PNG');
  let header: Buffer | undefined;
  const parts: Buffer[] = [];
  for (let at = 8; at + 12 <= data.length; ) {
    const length = data.readUInt32BE(at);
    const type = data.toString('latin1', at + 4, at + 8);
    const content = data.subarray(at + 8, at + 8 + length);
    if (type === 'IHDR') header = content;
    if (type === 'IDAT') parts.push(content);
    at += 12 + length;
  }
  if (header?.length !== 13) throw new Error('the PNG has no header');
  const [width, height] = [header.readUInt32BE(0), header.readUInt32BE(4)];
  const samples = SAMPLES[header[9] ?? -1];
  if (header[8] !== 8 || header[12] !== 0 || samples === undefined)
    throw new Error('the PNG is not of 8-bit RGB or RGBA without interlacing');
  const raw = inflateSync(Buffer.concat(parts));
  const stride = width * samples;
  if (raw.length !== height * (stride + 1)) throw new Error('the PNG is cut short');

  const rgb = new Uint8Array(width * height * 3);
  let above = new Uint8Array(stride);
  for (let y = 0; y < height; y++) {
    const start = y * (stride + 1);
    const row = unfilter(raw[start] ?? 0, raw.subarray(start + 1, start + 1 + stride), above, samples);
    for (let x = 0; x < width; x++) rgb.set(row.subarray(x * samples, x * samples + 3), (y * width + x) * 3);
    above = row;
  }
  return { width, height, rgb };
}

/** Undoes the filter of one row. @param step distance to the same sample of the previous pixel */
function unfilter(
  filter: number,
  line: Uint8Array,
  above: Uint8Array,
  step: number,
): Uint8Array<ArrayBuffer> {
  const row = new Uint8Array(line.length);
  for (let i = 0; i < line.length; i++) {
    const left = row[i - step] ?? 0;
    const up = above[i] ?? 0;
    const corner = i >= step ? (above[i - step] ?? 0) : 0;
    row[i] = (line[i] ?? 0) + prediction(filter, left, up, corner);
  }
  return row;
}

function prediction(filter: number, left: number, up: number, corner: number): number {
  switch (filter) {
    case 0:
      return 0;
    case 1:
      return left;
    case 2:
      return up;
    case 3:
      return (left + up) >> 1;
    case 4:
      return paeth(left, up, corner);
    default:
      throw new Error(`the PNG has a filter ${filter}`);
  }
}

function paeth(left: number, up: number, corner: number): number {
  const estimate = left + up - corner;
  const [a, b, c] = [left, up, corner].map((value) => Math.abs(estimate - value)) as [number, number, number];
  if (a <= b && a <= c) return left;
  return b <= c ? up : corner;
}
