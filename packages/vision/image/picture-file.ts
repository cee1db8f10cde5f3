import { readFile } from 'node:fs/promises';
import { EngineInterruptedError, RenderError } from '@semblance/engine-api/engine';
import type { Picture } from '@semblance/engine-api/picture';
import sharp from 'sharp';
import {
  embedProfile,
  type ImageFormat,
  isAnimatedPng,
  isLosslessWebp,
  READ_FORMATS,
  sniffFormat,
} from './container.ts';
import { withDecoder } from './decoder/attempt-decoder.ts';
import type { Pixels } from './decoder/decoder.ts';
import type { DecodeRequest, PictureLook } from './decoder/protocol.ts';

/** Largest number of pixels of an accepted picture. */
export const MAX_PIXELS = 40_000_000;
const HEAD_BYTES = 256 * 1024;

/** Decoded base image with everything needed to encode it in its original form. */
export interface BasePicture {
  readonly picture: Picture;
  /** Format to encode it in: its own, if it is written here, otherwise one that keeps all that it has. */
  readonly format: ImageFormat;
  /** Whether to encode losslessly: always for PNG, and for WebP that was lossless. */
  readonly lossless: boolean;
  /** Colour profile of the pixels; undefined means sRGB. */
  readonly profile: Buffer | undefined;
}

interface Opened {
  readonly format: NonNullable<ReturnType<typeof sniffFormat>>;
  readonly file: Buffer;
  readonly look: PictureLook;
}

/**
 * Decodes the picture to be changed: upright by its orientation tag, in its own colour space and depth. 16 bits,
 * grey and alpha are kept, so that untouched pixels stay unchanged. Only CMYK is converted, to sRGB.
 * @param subject name of the picture in messages
 * @throws RenderError `unsupported_format` (of no format that is read; animated; damaged or truncated),
 * `input_too_large`
 */
export async function readBase(path: string, subject = 'The base image'): Promise<BasePicture> {
  return withDecoder(async () => {
    const { format: source, file, look } = await openPicture(path, subject);
    const head = file.subarray(0, HEAD_BYTES);
    if (look.pages > 1 || (source === 'png' && isAnimatedPng(head))) {
      throw new RenderError(
        'unsupported_format',
        `${subject} is animated: send a still picture, or a video to Video Swap.`,
      );
    }
    const grey = look.space === 'b-w' || look.space === 'grey16';
    const deep = look.depth === 'ushort';
    const convert = look.space === 'cmyk';
    const picture = await decodePicture(file, subject, {
      space: grey ? (deep ? 'grey16' : 'b-w') : deep ? 'rgb16' : 'srgb',
      depth: deep ? 'ushort' : 'uchar',
      alpha: 'keep',
      limit: MAX_PIXELS,
      ignoreIcc: !convert,
    });
    const format = writtenFormat(source, deep || look.hasAlpha);
    return {
      picture,
      format,
      lossless: format === 'png' || (format === 'webp' && isLosslessWebp(head)),
      profile: convert || look.icc === undefined ? undefined : Buffer.from(look.icc, 'base64'),
    };
  });
}

/** @param more whether the picture has what JPEG cannot hold: opacity, or more than 8 bits */
function writtenFormat(source: Opened['format'], more: boolean): ImageFormat {
  if (source === 'gif') return 'png';
  if (source === 'heif') return more ? 'png' : 'jpeg';
  return source;
}

/**
 * Decodes the picture of a face that is used elsewhere and not shown itself: upright, converted to 8-bit sRGB by
 * its profile, without alpha. For an animation it returns the first frame.
 * @param what name of the picture in messages
 * @throws RenderError as {@link readBase}
 */
export async function readFace(path: string, what = 'The face picture'): Promise<Picture> {
  return readRgb(path, what, 'remove');
}

/**
 * Decodes a picture that is shown itself, like {@link readFace}, but over white. Transparent pixels may still
 * contain content that the owner erased.
 * @param what name of the picture in messages
 * @throws RenderError as {@link readBase}
 */
export async function readShown(path: string, what: string): Promise<Picture> {
  return readRgb(path, what, 'white');
}

function readRgb(path: string, what: string, alpha: DecodeRequest['alpha']): Promise<Picture> {
  return withDecoder(async () => {
    const { file } = await openPicture(path, what);
    return decodePicture(file, what, { space: 'srgb', depth: 'uchar', alpha, limit: MAX_PIXELS });
  });
}

/**
 * Decodes only the opacity of a picture, upright, one byte for each pixel. Undefined where it has none.
 * @param what name of the picture in messages
 * @throws RenderError as {@link readBase}
 */
export function readAlpha(path: string, what: string): Promise<Pixels | undefined> {
  return withDecoder(async (decoder) => {
    const { file, look } = await openPicture(path, what);
    if (!look.hasAlpha) return undefined;
    const how = { space: 'srgb', depth: 'uchar', alpha: 'only', limit: MAX_PIXELS } as const;
    return orDamaged(damagedText(what), () => decoder.decode(file, how));
  });
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
 * @throws RenderError `unsupported_format` (of no format that is read; damaged; colours that cannot be shown),
 * `input_too_large`
 */
export async function openPicture(path: string, what: string): Promise<Opened> {
  const file = await readFile(path);
  const format = sniffFormat(file.subarray(0, HEAD_BYTES));
  if (!format) {
    throw new RenderError('unsupported_format', `${what} is not a ${READ_FORMATS} file.`);
  }
  const look = await orDamaged(`${what} cannot be read: the file is damaged.`, () =>
    withDecoder((decoder) => decoder.look(file)),
  );
  const { width, height, fault } = look;
  if (fault) {
    throw new RenderError('unsupported_format', `${what} ${fault}: send it in sRGB or Display P3.`);
  }
  if (width * height > MAX_PIXELS) {
    const size = `${width} × ${height}`;
    throw new RenderError(
      'input_too_large',
      `${what} has ${size} pixels; at most ${MAX_PIXELS / 1e6} megapixels are taken.`,
    );
  }
  return { format, file, look };
}

const damagedText = (what: string) => `${what} cannot be decoded: the file is damaged or cut off.`;

async function decodePicture(
  file: Uint8Array,
  what: string,
  how: Omit<DecodeRequest, 'type'>,
): Promise<Picture> {
  const { width, height, channels, data } = await orDamaged(damagedText(what), () =>
    withDecoder((decoder) => decoder.decode(file, how)),
  );
  const pixels =
    how.depth === 'ushort' ? new Uint16Array(data.buffer, data.byteOffset, data.byteLength / 2) : data;
  return { width, height, channels: channels as Picture['channels'], data: pixels };
}

/** Blames the file for what is no fault of this machine. */
async function orDamaged<Result>(message: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (cause) {
    if (cause instanceof EngineInterruptedError || cause instanceof RenderError) throw cause;
    throw new RenderError('unsupported_format', message, { cause });
  }
}

/**
 * Decodes a file for a look at it: at most as large as this, and over white.
 * @throws RenderError `unsupported_format`
 */
export function readSmall(
  path: string,
  size: NonNullable<DecodeRequest['size']>,
  limit: number,
): Promise<Pixels> {
  return orDamaged('The picture could not be read.', async () => {
    const file = await readFile(path);
    return withDecoder((decoder) =>
      decoder.decode(file, { limit, space: 'srgb', depth: 'uchar', alpha: 'white', size }),
    );
  });
}
