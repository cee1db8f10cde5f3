import { frameSize, jpegSegments } from '@semblance/common/jpeg-segments';

export interface PictureSize {
  readonly width: number;
  readonly height: number;
}

/**
 * By codec: a function that returns the size in a picture's header, or undefined if there is none. Nothing is
 * decoded.
 */
export const PICTURE_SIZES: Readonly<Record<string, (picture: Buffer) => PictureSize | undefined>> = {
  jpeg: (picture) => someOf(jpegSize(picture)),
  png: (picture) => someOf(pngSize(picture)),
  webp: (picture) => someOf(webpSize(picture)),
};

/** Returns undefined for a picture without pixels, because that is no picture. */
function someOf(size: PictureSize | undefined): PictureSize | undefined {
  return size && size.width > 0 && size.height > 0 ? size : undefined;
}

/** Returns the size from a segment before the first scan. */
function jpegSize(picture: Buffer): PictureSize | undefined {
  for (const segment of jpegSegments(picture)) {
    const size = frameSize(segment);
    if (size) return size;
  }
  return undefined;
}

const PNG_BEGINNING = Buffer.from('\x89PNG\r\n\x1a\n\0\0\0\rIHDR', 'latin1');

function pngSize(picture: Buffer): PictureSize | undefined {
  if (picture.length < 24 || !picture.subarray(0, 16).equals(PNG_BEGINNING)) return undefined;
  return { width: picture.readUInt32BE(16), height: picture.readUInt32BE(20) };
}

/** WebP container specification: the first chunk is one of three kinds, each with the size in another place. */
function webpSize(picture: Buffer): PictureSize | undefined {
  if (picture.length < 30 || text(picture, 0) !== 'RIFF' || text(picture, 8) !== 'WEBP') return undefined;
  switch (text(picture, 12)) {
    case 'VP8 ':
      if (picture.readUIntBE(23, 3) !== 0x9d012a) return undefined;
      return { width: picture.readUInt16LE(26) & 0x3fff, height: picture.readUInt16LE(28) & 0x3fff };
    case 'VP8L': {
      if (picture[20] !== 0x2f) return undefined;
      const bits = picture.readUInt32LE(21);
      return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
    }
    case 'VP8X':
      return { width: picture.readUIntLE(24, 3) + 1, height: picture.readUIntLE(27, 3) + 1 };
    default:
      return undefined;
  }
}

function text(picture: Buffer, at: number): string {
  return picture.toString('latin1', at, at + 4);
}
