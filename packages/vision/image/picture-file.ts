import { type FileHandle, open } from 'node:fs/promises';
import { RenderError } from '@semblance/engine-api/engine';
import type { Picture } from '@semblance/engine-api/picture';
import sharp, { type Metadata, type OutputInfo, type Sharp } from 'sharp';
import { embedProfile, type ImageFormat, isAnimatedPng, isLosslessWebp, sniffFormat } from './container.ts';

/** Largest number of pixels of an accepted picture. */
export const MAX_PIXELS = 40_000_000;
const HEAD_BYTES = 256 * 1024;

/** Decoded base image with everything needed to encode it in its original form. */
export interface BasePicture {
  readonly picture: Picture;
  readonly format: ImageFormat;
  /** Whether to encode losslessly: always for PNG, and for WebP that was lossless. */
  readonly lossless: boolean;
  /** Colour profile of the pixels; undefined means sRGB. */
  readonly profile: Buffer | undefined;
}

interface Opened {
  readonly format: ImageFormat;
  readonly head: Buffer;
  readonly metadata: Metadata;
}

/**
 * Decodes the picture to be changed: upright by its orientation tag, in its own colour space and depth. 16 bits,
 * grey and alpha are kept, so that untouched pixels stay unchanged. Only CMYK is converted, to sRGB.
 * @throws RenderError `unsupported_format` (not JPEG, PNG or WebP; animated; damaged or truncated),
 * `input_too_large`
 */
export async function readBase(path: string): Promise<BasePicture> {
  const subject = 'The base image';
  const { format, head, metadata } = await openPicture(path, subject);
  if ((metadata.pages ?? 1) > 1 || (format === 'png' && isAnimatedPng(head))) {
    throw new RenderError(
      'unsupported_format',
      `${subject} is animated: send a still picture, or a video to Video Swap.`,
    );
  }
  const grey = metadata.space === 'b-w' || metadata.space === 'grey16';
  const deep = metadata.depth === 'ushort';
  const convert = metadata.space === 'cmyk';
  const profile = convert ? undefined : metadata.icc;
  let space: string;
  if (grey) space = deep ? 'grey16' : 'b-w';
  else space = deep ? 'rgb16' : 'srgb';
  const picture = await decode(subject, () =>
    sharp(path, { failOn: 'error', limitInputPixels: MAX_PIXELS, ignoreIcc: !convert })
      .autoOrient()
      .toColourspace(space)
      .raw({ depth: deep ? 'ushort' : 'uchar' })
      .toBuffer({ resolveWithObject: true }),
  );
  return {
    picture,
    format,
    lossless: format === 'png' || (format === 'webp' && isLosslessWebp(head)),
    profile,
  };
}

/**
 * Decodes the picture of a face that is used elsewhere and not shown itself: upright, converted to 8-bit sRGB by
 * its profile, without alpha. For an animation it returns the first frame.
 * @param what name of the picture in messages
 * @throws RenderError as {@link readBase}
 */
export async function readFace(path: string, what = 'The face picture'): Promise<Picture> {
  await openPicture(path, what);
  return decode(what, () => rgbOf(path).removeAlpha().toBuffer({ resolveWithObject: true }));
}

/**
 * Decodes a picture that is shown itself, like {@link readFace}, but over white. Transparent pixels may still
 * contain content that the owner erased.
 * @param what name of the picture in messages
 * @throws RenderError as {@link readBase}
 */
export async function readShown(path: string, what: string): Promise<Picture> {
  await openPicture(path, what);
  return decode(what, () =>
    rgbOf(path).flatten({ background: '#ffffff' }).toBuffer({ resolveWithObject: true }),
  );
}

function rgbOf(path: string): Sharp {
  return sharp(path, { failOn: 'error', limitInputPixels: MAX_PIXELS })
    .autoOrient()
    .toColourspace('srgb')
    .raw({ depth: 'uchar' });
}

/** Encodes a changed base image in its original family, depth and colour space. */
export async function encodeBase(base: BasePicture): Promise<Buffer> {
  const { picture, format, lossless, profile } = base;
  const { width, height, channels, data } = picture;
  const deep = data instanceof Uint16Array;
  // sharp derives the depth of raw pixels from the type of the array.
  let pipeline = sharp(data, { raw: { width, height, channels }, limitInputPixels: MAX_PIXELS });
  if (channels <= 2 && format !== 'webp') pipeline = pipeline.toColourspace(deep ? 'grey16' : 'b-w');
  else if (deep) pipeline = pipeline.toColourspace('rgb16');
  if (format === 'jpeg') pipeline = pipeline.jpeg({ quality: 95, chromaSubsampling: '4:4:4' });
  else if (format === 'png') pipeline = pipeline.png({ compressionLevel: 6 });
  else
    pipeline = lossless
      ? pipeline.webp({ lossless: true, exact: true })
      : pipeline.webp({ quality: 95, alphaQuality: 100, smartSubsample: true });
  const file = await pipeline.toBuffer();
  return profile ? embedProfile(file, format, profile) : file;
}

export const CONTENT_TYPES: Readonly<Record<ImageFormat, string>> = {
  jpeg: 'image/jpeg',
  png: 'image/png',
  webp: 'image/webp',
};

export const EXTENSIONS: Readonly<Record<ImageFormat, string>> = { jpeg: 'jpg', png: 'png', webp: 'webp' };

/**
 * Reads the properties of a picture without decoding it.
 * @param what name of the picture in messages
 * @throws RenderError `unsupported_format` (not JPEG, PNG or WebP; damaged), `input_too_large`
 */
export async function openPicture(path: string, what: string): Promise<Opened> {
  const head = await readHead(path);
  const format = sniffFormat(head);
  if (!format) {
    throw new RenderError('unsupported_format', `${what} is not a JPEG, PNG or WebP file.`);
  }
  let metadata: Metadata;
  try {
    metadata = await sharp(path, { failOn: 'error', limitInputPixels: false }).metadata();
  } catch (error) {
    throw new RenderError('unsupported_format', `${what} cannot be read: the file is damaged.`, {
      cause: error,
    });
  }
  const { width, height } = metadata;
  if (width * height > MAX_PIXELS) {
    const size = `${width} × ${height}`;
    throw new RenderError(
      'input_too_large',
      `${what} has ${size} pixels; at most ${MAX_PIXELS / 1e6} megapixels are taken.`,
    );
  }
  return { format, head, metadata };
}

async function readHead(path: string): Promise<Buffer> {
  let file: FileHandle | undefined;
  try {
    file = await open(path, 'r');
    const head = Buffer.alloc(HEAD_BYTES);
    const { bytesRead } = await file.read(head, 0, HEAD_BYTES, 0);
    return head.subarray(0, bytesRead);
  } finally {
    await file?.close();
  }
}

async function decode(
  what: string,
  read: () => Promise<{ data: Buffer; info: OutputInfo }>,
): Promise<Picture> {
  let result: { data: Buffer; info: OutputInfo };
  try {
    result = await read();
  } catch (error) {
    throw new RenderError(
      'unsupported_format',
      `${what} cannot be decoded: the file is damaged or cut off.`,
      {
        cause: error,
      },
    );
  }
  const { data, info } = result;
  const { width, height, channels } = info;
  const samples = width * height * channels;
  const deep = data.byteLength === samples * 2;
  if (!deep && data.byteLength !== samples)
    throw new Error(`decoder gave ${data.byteLength} bytes for ${samples} samples`);
  // The decoder's buffer has memory of its own, aligned for 16 bits.
  const pixels = deep
    ? new Uint16Array(data.buffer, data.byteOffset, samples)
    : new Uint8Array(data.buffer, data.byteOffset, samples);
  return { width, height, channels: channels as Picture['channels'], data: pixels };
}
