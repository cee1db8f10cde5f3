export interface JpegSegment {
  readonly marker: number;
  /** Without marker and length. */
  readonly body: Buffer;
  /** States where its marker begins. */
  readonly at: number;
}

/** Start of a scan: behind it are pixels. */
export const START_OF_SCAN = 0xda;
const START_OF_IMAGE = 0xffd8;
const END_OF_IMAGE = 0xd9;
/** Cameras write a dozen, with a few filling bytes. A picture of markers alone would keep its reader busy. */
const MAX_MARKERS = 1_000;

/**
 * Segments of a JPEG from its beginning (ITU-T T.81, B.1.1), up to the first that is damaged, the end of the picture or
 * the first scan, which is the last. Nothing of what is no JPEG.
 */
export function* jpegSegments(picture: Buffer): Generator<JpegSegment> {
  if (picture.length < 4 || picture.readUInt16BE(0) !== START_OF_IMAGE) return;
  let at = 2;
  for (let markers = 0; markers < MAX_MARKERS && at + 4 <= picture.length; markers++) {
    if (picture[at] !== 0xff) return;
    const marker = picture[at + 1] as number;
    // Any marker may have bytes 0xff before it.
    if (marker === 0xff) {
      at++;
      continue;
    }
    const length = picture.readUInt16BE(at + 2);
    const end = at + 2 + length;
    if (marker === END_OF_IMAGE || length < 2 || end > picture.length) return;
    yield { marker, body: picture.subarray(at + 4, end), at };
    if (marker === START_OF_SCAN) return;
    at = end;
  }
}

/** The size of a picture that a segment says; undefined where it begins no frame (SOF, of any coding). */
export function frameSize({ marker, body }: JpegSegment): { width: number; height: number } | undefined {
  // Three of the numbers are of tables.
  const begins = marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
  if (!begins || body.length < 6) return undefined;
  return { width: body.readUInt16BE(3), height: body.readUInt16BE(1) };
}
