import { frameSize, jpegSegments, START_OF_SCAN } from '@semblance/common/jpeg-segments';
import { describesSrgb } from './srgb-profile.ts';
import { LiveVideoError, PICTURE_LIMITS } from './types.ts';

export interface JpegHeader {
  readonly width: number;
  readonly height: number;
  /** Orientation of the picture (Exif 2.32, tag 0x0112): 1 is upright. */
  readonly orientation: number;
  /**
   * Whether it is what cameras and browsers send: brightness and colours, or only brightness, of 8 bits, in Huffman's
   * coding, and no colour profile but sRGB's.
   */
  readonly plain: boolean;
  /** Where its first scan begins. */
  readonly scanAt: number;
}

const APP1 = 0xe1;
const APP2 = 0xe2;
/** Frame headers of Huffman's coding (T.81, table B.1): baseline, extended and progressive. */
const HUFFMAN = [0xc0, 0xc1, 0xc2];
const SCAN = Buffer.from([0xff, START_OF_SCAN]);
const BEGINNING = Buffer.from([0xff, 0xd8, 0xff]);
const EXIF = Buffer.from('Exif\0\0', 'latin1');
const PROFILE = Buffer.from('ICC_PROFILE\0', 'latin1');
const ORIENTATION = 0x0112;
/**
 * Most scans of a progressive picture. Encoders make about ten; a small file with thousands would keep a decoder
 * busy for minutes.
 */
const MAX_SCANS = 50;

/**
 * Reads the header of a JPEG before anything is decoded.
 * @throws LiveVideoError `bad_frame`: no JPEG, cut off before its pixels, or over {@link PICTURE_LIMITS}
 */
export function readJpegHeader(picture: Uint8Array): JpegHeader {
  if (picture.length > PICTURE_LIMITS.bytes) {
    const most = PICTURE_LIMITS.bytes / 1024 / 1024;
    throw badFrame(`The picture is larger than ${most} MiB.`);
  }
  const bytes = Buffer.from(picture.buffer, picture.byteOffset, picture.byteLength);
  if (!bytes.subarray(0, BEGINNING.length).equals(BEGINNING)) throw badFrame('The picture is not a JPEG.');
  let size: { width: number; height: number } | undefined;
  let orientation = 1;
  let plain = true;
  for (const segment of jpegSegments(bytes)) {
    const { marker, body, at } = segment;
    const frame = frameSize(segment);
    if (frame) {
      if (size) throw damaged();
      size = frame;
      plain &&= HUFFMAN.includes(marker) && isUsual(body);
    } else if (marker === APP1 && body.subarray(0, EXIF.length).equals(EXIF)) {
      orientation = orientationOf(body.subarray(EXIF.length)) ?? orientation;
    } else if (marker === APP2 && body.subarray(0, PROFILE.length).equals(PROFILE)) {
      // After the name come the number of this part, and how many there are.
      plain &&= body[PROFILE.length + 1] === 1 && describesSrgb(body.subarray(PROFILE.length + 2));
    } else if (marker === START_OF_SCAN) {
      if (!size || size.width === 0 || size.height === 0) throw damaged();
      checkSize(size);
      checkScans(bytes, at);
      return { ...size, orientation, plain, scanAt: at };
    }
  }
  throw damaged();
}

/** Whether a frame has 8 bits, and one or three components. */
function isUsual(frame: Buffer): boolean {
  return frame[0] === 8 && (frame[5] === 1 || frame[5] === 3);
}

function badFrame(message: string, cause?: unknown): LiveVideoError {
  return new LiveVideoError('bad_frame', message, cause === undefined ? undefined : { cause });
}

export function damaged(cause?: unknown): LiveVideoError {
  return badFrame('The picture is damaged or cut off.', cause);
}

function checkSize({ width, height }: { width: number; height: number }): void {
  const { side, pixels } = PICTURE_LIMITS;
  if (Math.max(width, height) <= side && width * height <= pixels) return;
  throw badFrame(`The picture has ${width} × ${height} pixels; at most 1280 × 720 or 720 × 1280 are taken.`);
}

function checkScans(bytes: Buffer, from: number): void {
  let scans = 0;
  // Within a scan 0xff is always followed by 0 or by the number of a restart.
  for (let at = from; at >= 0; at = bytes.indexOf(SCAN, at + 2)) {
    if (++scans > MAX_SCANS) throw badFrame('The picture has too many scans.');
  }
}

/** Returns the orientation tag in the first directory of a TIFF header. */
function orientationOf(tiff: Buffer): number | undefined {
  if (tiff.length < 8) return undefined;
  const little = tiff.toString('latin1', 0, 2) === 'II';
  const word = (at: number): number => (little ? tiff.readUInt16LE(at) : tiff.readUInt16BE(at));
  const start = little ? tiff.readUInt32LE(4) : tiff.readUInt32BE(4);
  if (start + 2 > tiff.length) return undefined;
  const entries = word(start);
  for (let entry = 0; entry < entries; entry++) {
    const at = start + 2 + entry * 12;
    if (at + 12 > tiff.length) return undefined;
    if (word(at) !== ORIENTATION) continue;
    const value = word(at + 8);
    return value >= 1 && value <= 8 ? value : undefined;
  }
  return undefined;
}
