export interface JpegSegment {
  readonly marker: number;
  /** Content of the segment, without marker and length. */
  readonly body: Buffer;
  /** Offset of the marker in the picture, in bytes. */
  readonly at: number;
}

/** Marker of the start of a scan. Pixel data follows its segment. */
export const START_OF_SCAN = 0xda;
const START_OF_IMAGE = 0xffd8;
const END_OF_IMAGE = 0xd9;
/**
 * Most markers and fill bytes that are read. Cameras write about a dozen. A picture of markers only would keep its
 * reader busy.
 */
const MAX_MARKERS = 1_000;

/**
 * Yields the segments of a JPEG from its start (ITU-T T.81, B.1.1). Stops at the first damaged segment, the end of
 * the picture, or after the first scan header. Yields nothing if the bytes are no JPEG.
 */
export function* jpegSegments(picture: Buffer): Generator<JpegSegment> {
  if (picture.length < 4 || picture.readUInt16BE(0) !== START_OF_IMAGE) return;
  let at = 2;
  for (let markers = 0; markers < MAX_MARKERS && at + 4 <= picture.length; markers++) {
    if (picture[at] !== 0xff) return;
    const marker = picture[at + 1] as number;
    // Any marker may be preceded by fill bytes 0xff.
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

/** Returns the picture size in a frame header (SOF, of any coding), in pixels. Undefined for other segments. */
export function frameSize({ marker, body }: JpegSegment): { width: number; height: number } | undefined {
  // Three of these numbers mark tables or are reserved.
  const begins = marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
  if (!begins || body.length < 6) return undefined;
  return { width: body.readUInt16BE(3), height: body.readUInt16BE(1) };
}
