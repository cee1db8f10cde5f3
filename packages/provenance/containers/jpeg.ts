import type { FileHandle } from 'node:fs/promises';
import {
  bytes,
  type Container,
  type Piece,
  range,
  readExactly,
  UnmarkableFileError,
  uint32,
} from './container.ts';

const SOI = 0xd8;
const SOS = 0xda;
const EOI = 0xd9;
const APP0 = 0xe0;
const APP1 = 0xe1;
const APP11 = 0xeb;
const XMP = Buffer.from('http://ns.adobe.com/xap/1.0/\0');
const MORE_XMP = Buffer.from('http://ns.adobe.com/xmp/extension/\0');
const EXIF = Buffer.from('Exif\0');
const LONGEST_MARK = 64;
/** Largest payload of a segment, without its two bytes of length. */
const SEGMENT_MOST = 0xffff - 2;
/** Bytes of `JP`, the box's instance number, the segment number, and the repeated box header. */
const APP11_HEADER = 2 + 2 + 4 + 8;

/**
 * Opens a JPEG file. XMP goes into APP1 and the manifest into APP11 segments, both before the tables and the
 * picture.
 */
export async function openJpeg(file: FileHandle, size: number): Promise<Container> {
  const start = await readExactly(file, 0, 2);
  if (start[0] !== 0xff || start[1] !== SOI) throw new UnmarkableFileError('not a JPEG file');
  const first: Piece[] = [range(0, 2)];
  const rest: Piece[] = [];
  let at = 2;
  for (;;) {
    const [mark, marker, high, low] = await readExactly(file, at, 4);
    if (mark !== 0xff || marker === undefined || marker === EOI) {
      throw new UnmarkableFileError(`no JPEG segment at ${at}`);
    }
    // Any number of 0xff bytes may precede a marker.
    if (marker === 0xff) {
      at += 1;
      continue;
    }
    if (marker === SOS) break;
    const length = 2 + ((high ?? 0) << 8) + (low ?? 0);
    if (length < 4 || at + length > size) throw new UnmarkableFileError(`a JPEG segment at ${at} is damaged`);
    const mention = await readExactly(file, at + 4, Math.min(LONGEST_MARK, length - 4));
    const early = marker === APP0 || (marker === APP1 && begins(mention, EXIF));
    if (!isOurs(marker, mention)) (early && rest.length === 0 ? first : rest).push(range(at, length));
    at += length;
  }
  rest.push(range(at, size - at));

  return {
    binding: 'data',
    layout(xmp, manifestLength) {
      const metadata = segment(APP1, XMP, xmp);
      const length = manifestLength === undefined ? 0 : wrappedLength(manifestLength);
      const manifest: Piece[] = length > 0 ? [{ kind: 'manifest', length }] : [];
      return { pieces: [...first, bytes(metadata), ...manifest, ...rest] };
    },
    wrap: wrapped,
  };
}

function begins(bytes: Uint8Array, mark: Uint8Array): boolean {
  return Buffer.compare(bytes.subarray(0, mark.length), mark) === 0;
}

function isOurs(marker: number, mention: Buffer): boolean {
  if (marker === APP1) return begins(mention, XMP) || begins(mention, MORE_XMP);
  // The segment is a JUMBF box. Engines write no JUMBF box other than a manifest.
  return marker === APP11 && mention.toString('latin1', 0, 2) === 'JP' && mention.includes('jumb');
}

function segment(marker: number, ...parts: Uint8Array[]): Buffer {
  const payload = Buffer.concat(parts);
  if (payload.length > SEGMENT_MOST) throw new UnmarkableFileError('metadata longer than a JPEG segment');
  const head = Buffer.from([0xff, marker, 0, 0]);
  head.writeUInt16BE(payload.length + 2, 2);
  return Buffer.concat([head, payload]);
}

/** Every segment repeats the box header, so the header is counted separately from the content. */
function wrappedLength(manifestLength: number): number {
  const content = manifestLength - 8;
  return content + Math.ceil(content / (SEGMENT_MOST - APP11_HEADER)) * (4 + APP11_HEADER);
}

function wrapped(manifest: Uint8Array): Buffer {
  const header = manifest.subarray(0, 8);
  const most = SEGMENT_MOST - APP11_HEADER;
  const segments: Buffer[] = [];
  for (let at = 8; at < manifest.length; at += most) {
    const number = uint32(segments.length + 1);
    segments.push(
      segment(APP11, Buffer.from('JP\0\u0001', 'latin1'), number, header, manifest.subarray(at, at + most)),
    );
  }
  return Buffer.concat(segments);
}
