import { LiveVideoError, PICTURE_LIMITS } from './types.ts';

export interface JpegHeader {
  readonly width: number;
  readonly height: number;
  /** How the picture lies (Exif 2.32, tag 0x0112): 1 is upright. */
  readonly orientation: number;
}

const SOI = 0xd8;
const EOI = 0xd9;
const SOS = 0xda;
const APP1 = 0xe1;
const START_OF_SCAN = Buffer.from([0xff, SOS]);
const EXIF = Buffer.from('Exif\0\0', 'latin1');
const ORIENTATION = 0x0112;
/**
 * Most passes over a progressive picture. Encoders make about ten; a small file with thousands would keep a decoder busy
 * for minutes.
 */
const MOST_SCANS = 50;

/**
 * Reads what a JPEG says of itself, before anything is decoded.
 * @throws LiveVideoError `bad_frame`: no JPEG, cut off before its pixels, or over {@link PICTURE_LIMITS}
 */
export function readJpegHeader(picture: Uint8Array): JpegHeader {
  if (picture.length > PICTURE_LIMITS.bytes) {
    const most = PICTURE_LIMITS.bytes / 1024 / 1024;
    throw badFrame(`The picture is larger than ${most} MiB.`);
  }
  const bytes = Buffer.from(picture.buffer, picture.byteOffset, picture.byteLength);
  if (bytes[0] !== 0xff || bytes[1] !== SOI || bytes[2] !== 0xff)
    throw badFrame('The picture is not a JPEG.');
  let size: { width: number; height: number } | undefined;
  let orientation = 1;
  for (const { marker, body, at } of segments(bytes)) {
    if (isFrame(marker) && body.length >= 6) {
      if (size) throw damaged();
      size = { width: body.readUInt16BE(3), height: body.readUInt16BE(1) };
    } else if (marker === APP1 && body.subarray(0, EXIF.length).equals(EXIF)) {
      orientation = orientationOf(body.subarray(EXIF.length)) ?? orientation;
    } else if (marker === SOS) {
      if (!size || size.width === 0 || size.height === 0) throw damaged();
      checkSize(size);
      checkScans(bytes, at);
      return { ...size, orientation };
    }
  }
  throw damaged();
}

export function badFrame(message: string, cause?: unknown): LiveVideoError {
  return new LiveVideoError('bad_frame', message, cause === undefined ? undefined : { cause });
}

export function damaged(cause?: unknown): LiveVideoError {
  return badFrame('The picture is damaged or cut off.', cause);
}

/** Segments up to the first scan (ITU-T T.81, B.1.1). */
function* segments(bytes: Buffer): Generator<{ marker: number; body: Buffer; at: number }> {
  let at = 2;
  while (at + 4 <= bytes.length) {
    if (bytes[at] !== 0xff) throw damaged();
    const marker = bytes[at + 1] as number;
    if (marker === 0xff) {
      at++;
      continue;
    }
    const length = bytes.readUInt16BE(at + 2);
    const end = at + 2 + length;
    if (marker === EOI || length < 2 || end > bytes.length) throw damaged();
    yield { marker, body: bytes.subarray(at + 4, end), at };
    at = end;
  }
}

/** Whether a marker begins a frame (SOF), of any coding. */
function isFrame(marker: number): boolean {
  return marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
}

function checkSize({ width, height }: { width: number; height: number }): void {
  const { side, pixels } = PICTURE_LIMITS;
  if (Math.max(width, height) <= side && width * height <= pixels) return;
  throw badFrame(`The picture has ${width} × ${height} pixels; at most 1280 × 720 or 720 × 1280 are taken.`);
}

function checkScans(bytes: Buffer, from: number): void {
  let scans = 0;
  // Within a scan 0xff is always followed by 0 or by the number of a restart.
  for (let at = from; at >= 0; at = bytes.indexOf(START_OF_SCAN, at + 2)) {
    if (++scans > MOST_SCANS) throw badFrame('The picture has too many scans.');
  }
}

/** The orientation tag of a TIFF header's first directory. */
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
