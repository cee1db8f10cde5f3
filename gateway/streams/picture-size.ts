export interface PictureSize {
  readonly width: number;
  readonly height: number;
}

/** By codec: the size that a picture's header says; undefined where it has none. Nothing is decoded. */
export const PICTURE_SIZES: Readonly<Record<string, (picture: Buffer) => PictureSize | undefined>> = {
  jpeg: (picture) => someOf(jpegSize(picture)),
  png: (picture) => someOf(pngSize(picture)),
  webp: (picture) => someOf(webpSize(picture)),
};

/** A picture without pixels is none. */
function someOf(size: PictureSize | undefined): PictureSize | undefined {
  return size && size.width > 0 && size.height > 0 ? size : undefined;
}

const START_OF_SCAN = 0xda;
/** Markers before the frame's; cameras write a dozen. One that is all markers would keep the gateway busy. */
const MOST_MARKERS = 1_000;

/** ITU-T T.81, B.1.1: segments, of which one begins the frame and says its size, before the first scan. */
function jpegSize(picture: Buffer): PictureSize | undefined {
  if (picture.length < 4 || picture.readUInt16BE(0) !== 0xffd8) return undefined;
  let at = 2;
  for (let markers = 0; markers < MOST_MARKERS && at + 4 <= picture.length; markers++) {
    const marker = picture[at + 1] as number;
    if (picture[at] !== 0xff || marker === START_OF_SCAN) return undefined;
    // Any marker may have bytes 0xff before it.
    if (marker === 0xff) {
      at++;
      continue;
    }
    const length = picture.readUInt16BE(at + 2);
    const end = at + 2 + length;
    if (length < 2 || end > picture.length) return undefined;
    if (beginsFrame(marker) && length >= 8)
      return { width: picture.readUInt16BE(at + 7), height: picture.readUInt16BE(at + 5) };
    at = end;
  }
  return undefined;
}

/** Of any coding; three numbers between are of tables. */
function beginsFrame(marker: number): boolean {
  return marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
}

const PNG_BEGINNING = Buffer.from('\x89PNG\r\n\x1a\n\0\0\0\rIHDR', 'latin1');

function pngSize(picture: Buffer): PictureSize | undefined {
  if (picture.length < 24 || !picture.subarray(0, 16).equals(PNG_BEGINNING)) return undefined;
  return { width: picture.readUInt32BE(16), height: picture.readUInt32BE(20) };
}

/** WebP container specification: the first chunk is one of three kinds, each with the size in a place of its own. */
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
