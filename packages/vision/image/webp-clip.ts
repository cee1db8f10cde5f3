import { type FileHandle, open, readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { crc32, deflate } from 'node:zlib';
import { EngineInterruptedError, RenderError } from '@semblance/engine-api/engine';
import { PictureDecoder } from './decoder/decoder.ts';
import type { PictureLook } from './decoder/protocol.ts';

const compress = promisify(deflate);

/** Pixels that are decoded at once; frames before them are decoded again for each such part. */
const PART_PIXELS = 24_000_000;
/** Most pixels of all frames, which bounds the time and the file. */
const MAX_PIXELS = 2_000_000_000;
/** Browsers show a frame with a shorter time for this long, in ms, and so do the decoders of GIF. */
const SHORTEST_MS = 11;
const IN_PLACE_OF_SHORTEST_MS = 100;
const LIMITS = { cpuSec: 600, memoryMib: 3_072 };

/** Whether a file is a WebP, by its first bytes. */
export async function isWebp(path: string): Promise<boolean> {
  const file = await open(path, 'r');
  try {
    const head = Buffer.alloc(12);
    await file.read(head, 0, head.length, 0);
    return head.toString('latin1', 0, 4) === 'RIFF' && head.toString('latin1', 8, 12) === 'WEBP';
  } finally {
    await file.close();
  }
}

/**
 * Writes an animated WebP, which ffmpeg does not read, as an animated PNG, with all its pixels, over white, and times.
 * Frames are decoded behind the walls around decoders.
 * @throws RenderError `unsupported_format` (damaged, or not animated), `input_too_large`; the signal's reason
 */
export async function webpToApng(path: string, to: string, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const file = await readFile(path);
  const decoder = await PictureDecoder.start(LIMITS);
  const stop = () => void decoder.close();
  signal.addEventListener('abort', stop, { once: true });
  const out = await open(to, 'wx', 0o600);
  try {
    signal.throwIfAborted();
    const look = await decoder.look(file);
    refuse(look);
    await writeApng(out, look, (from, count) => framesOf(decoder, file, look, from, count));
  } catch (cause) {
    signal.throwIfAborted();
    if (cause instanceof RenderError || cause instanceof EngineInterruptedError) throw cause;
    if (typeof (cause as NodeJS.ErrnoException).code === 'string') throw cause;
    throw new RenderError('unsupported_format', 'The animated WebP is damaged or cut off.', { cause });
  } finally {
    signal.removeEventListener('abort', stop);
    await out.close();
    await decoder.close();
  }
}

function refuse({ width, height, pages }: PictureLook): void {
  if (pages < 2)
    throw new RenderError(
      'unsupported_format',
      'The WebP is a still picture: a video, or an animation, is needed.',
    );
  if (width * height * pages > MAX_PIXELS)
    throw new RenderError(
      'input_too_large',
      `The animated WebP has ${pages} frames of ${width} × ${height} pixels; at most ${MAX_PIXELS / 1e6} megapixels of all frames are taken.`,
    );
}

async function framesOf(
  decoder: PictureDecoder,
  file: Uint8Array,
  { width, height }: PictureLook,
  from: number,
  count: number,
): Promise<Uint8Array> {
  const how = { limit: width * height * count, space: 'srgb', depth: 'uchar', alpha: 'white' } as const;
  const pixels = await decoder.decode(file, { ...how, frames: { from, count } });
  if (pixels.width !== width || pixels.height !== height * count || pixels.channels !== 3)
    throw new Error('an animation whose frames are not of one size');
  return pixels.data;
}

/** Writes an animated PNG (third edition, 11.3.6) of frames that each replace the whole picture. */
async function writeApng(
  out: FileHandle,
  { width, height, pages, delays = [] }: PictureLook,
  frames: (from: number, count: number) => Promise<Uint8Array>,
): Promise<void> {
  const part = Math.max(1, Math.floor(PART_PIXELS / (width * height)));
  let sequence = 0;
  await out.write(Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'));
  // Eight bits of RGB.
  await out.write(chunk('IHDR', u32(width), u32(height), Buffer.from([8, 2, 0, 0, 0])));
  await out.write(chunk('acTL', u32(pages), u32(1)));
  for (let from = 0; from < pages; from += part) {
    const count = Math.min(part, pages - from);
    const pixels = await frames(from, count);
    for (let index = 0; index < count; index++) {
      const stated = delays[from + index] ?? 0;
      const ms = stated < SHORTEST_MS ? IN_PLACE_OF_SHORTEST_MS : Math.min(stated, 65_535);
      const place = [u32(sequence++), u32(width), u32(height), u32(0), u32(0)];
      await out.write(chunk('fcTL', ...place, u16(ms), u16(1_000), Buffer.from([0, 0])));
      const data = await compress(rowsOf(pixels, index, width, height), { level: 1 });
      await out.write(from + index === 0 ? chunk('IDAT', data) : chunk('fdAT', u32(sequence++), data));
    }
  }
  await out.write(chunk('IEND'));
}

/** Returns the rows of a frame, each after a byte that says that it is not filtered. */
function rowsOf(pixels: Uint8Array, index: number, width: number, height: number): Buffer {
  const row = width * 3;
  const rows = Buffer.alloc((row + 1) * height);
  for (let y = 0; y < height; y++) {
    const from = (index * height + y) * row;
    rows.set(pixels.subarray(from, from + row), y * (row + 1) + 1);
  }
  return rows;
}

function chunk(type: string, ...parts: Uint8Array[]): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), ...parts]);
  return Buffer.concat([u32(body.length - 4), body, u32(crc32(body))]);
}

function u16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(value);
  return bytes;
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value >>> 0);
  return bytes;
}
