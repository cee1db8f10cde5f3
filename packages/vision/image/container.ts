import { crc32, deflateSync } from 'node:zlib';

/** Formats in which pictures are written. */
export type ImageFormat = 'jpeg' | 'png' | 'webp';
/** Formats that are read: these, GIF, and HEIF with HEVC (HEIC) or AV1 (AVIF) in it. */
type SourceFormat = ImageFormat | 'gif' | 'heif';

/** In words, for refusals. */
export const READ_FORMATS = 'JPEG, PNG, WebP, HEIC, AVIF or GIF';

/** Returns the format of a file by its first bytes; undefined for unsupported formats. */
export function sniffFormat(head: Uint8Array): SourceFormat | undefined {
  const ascii = (from: number, to: number): string => Buffer.from(head.subarray(from, to)).toString('latin1');
  if (head[0] === 0xff && head[1] === 0xd8 && head[2] === 0xff) return 'jpeg';
  if (ascii(0, 8) === '\x89PNG\r\n\x1a\n') return 'png';
  if (ascii(0, 4) === 'RIFF' && ascii(8, 12) === 'WEBP') return 'webp';
  if (/^GIF8[79]a$/.test(ascii(0, 6))) return 'gif';
  return isHeif(head) ? 'heif' : undefined;
}

/** Brands of files with a coded still picture that a decoder here knows: HEVC, AV1, or either. */
const HEIF_BRAND = /^(hei[cxms]|avif|mif1|mif2)$/;

/** Whether the first box of a file (ISO/IEC 14496-12, 4.3) says that it has a HEIC or AVIF picture. */
export function isHeif(head: Uint8Array): boolean {
  const bytes = Buffer.from(head.buffer, head.byteOffset, head.byteLength);
  if (bytes.length < 16 || bytes.toString('latin1', 4, 8) !== 'ftyp') return false;
  const end = Math.min(bytes.readUInt32BE(0), bytes.length, 256);
  for (let at = 8; at + 4 <= end; at += at === 8 ? 8 : 4)
    if (HEIF_BRAND.test(bytes.toString('latin1', at, at + 4))) return true;
  return false;
}

/** Whether a PNG is animated (has an acTL chunk before the pixels); decoders ignore the animation. */
export function isAnimatedPng(head: Uint8Array): boolean {
  const bytes = Buffer.from(head.buffer, head.byteOffset, head.byteLength);
  for (let at = 8; at + 8 <= bytes.length; ) {
    const type = bytes.toString('latin1', at + 4, at + 8);
    if (type === 'acTL') return true;
    if (type === 'IDAT') return false;
    at += 12 + bytes.readUInt32BE(at);
  }
  return false;
}

/** Whether a WebP file holds a lossless picture. */
export function isLosslessWebp(head: Uint8Array): boolean {
  const bytes = Buffer.from(head.buffer, head.byteOffset, head.byteLength);
  for (let at = 12; at + 8 <= bytes.length; ) {
    const type = bytes.toString('latin1', at, at + 4);
    if (type === 'VP8L') return true;
    if (type === 'VP8 ') return false;
    const size = bytes.readUInt32LE(at + 4);
    at += 8 + size + (size % 2);
  }
  return false;
}

/**
 * Embeds a colour profile into an encoded picture that has none. The pixels stay unchanged, because they are
 * already in the profile's space. The encoder can only convert to a profile, not attach one.
 */
export function embedProfile(file: Buffer, format: ImageFormat, profile: Uint8Array): Buffer {
  if (format === 'jpeg') return embedInJpeg(file, profile);
  if (format === 'png') return embedInPng(file, profile);
  return embedInWebp(file, profile);
}

/** Writes APP2 segments of at most 65519 profile bytes, numbered from 1 (ICC.1:2010, annex B.4). */
function embedInJpeg(file: Buffer, profile: Uint8Array): Buffer {
  const most = 65519;
  const count = Math.ceil(profile.length / most);
  const segments: Buffer[] = [];
  for (let i = 0; i < count; i++) {
    const part = profile.subarray(i * most, (i + 1) * most);
    const head = Buffer.alloc(18);
    head.writeUInt16BE(0xffe2, 0);
    head.writeUInt16BE(part.length + 16, 2);
    head.write('ICC_PROFILE\0', 4, 'latin1');
    head[16] = i + 1;
    head[17] = count;
    segments.push(head, Buffer.from(part));
  }
  // A JFIF segment must come first.
  const jfif = file.readUInt16BE(2) === 0xffe0 ? 4 + file.readUInt16BE(4) : 2;
  return Buffer.concat([file.subarray(0, jfif), ...segments, file.subarray(jfif)]);
}

/** Writes an iCCP chunk after the header (PNG, section 11.3.2.3). */
function embedInPng(file: Buffer, profile: Uint8Array): Buffer {
  const body = Buffer.concat([Buffer.from('iCCPicc\0\0', 'latin1'), deflateSync(profile)]);
  const head = Buffer.alloc(4);
  head.writeUInt32BE(body.length - 4);
  const tail = Buffer.alloc(4);
  tail.writeUInt32BE(crc32(body));
  const afterHeader = 8 + 25;
  return Buffer.concat([file.subarray(0, afterHeader), head, body, tail, file.subarray(afterHeader)]);
}

/** Writes a VP8X header with the profile flag, and an ICCP chunk before the pixels (WebP container specification). */
function embedInWebp(file: Buffer, profile: Uint8Array): Buffer {
  const chunks: { type: string; body: Buffer }[] = [];
  for (let at = 12; at + 8 <= file.length; ) {
    const size = file.readUInt32LE(at + 4);
    chunks.push({ type: file.toString('latin1', at, at + 4), body: file.subarray(at + 8, at + 8 + size) });
    at += 8 + size + (size % 2);
  }
  let header = chunks.find(({ type }) => type === 'VP8X')?.body;
  if (header) {
    header = Buffer.from(header);
  } else {
    const { width, height, alpha } = webpSize(chunks);
    header = Buffer.alloc(10);
    header[0] = alpha ? 0x10 : 0;
    header.writeUIntLE(width - 1, 4, 3);
    header.writeUIntLE(height - 1, 7, 3);
  }
  header[0] = (header[0] as number) | 0x20;
  const rest = chunks.filter(({ type }) => type !== 'VP8X' && type !== 'ICCP');
  const all = [{ type: 'VP8X', body: header }, { type: 'ICCP', body: Buffer.from(profile) }, ...rest];
  const parts = all.flatMap(({ type, body }) => {
    const head = Buffer.alloc(8);
    head.write(type, 0, 'latin1');
    head.writeUInt32LE(body.length, 4);
    return [head, body, Buffer.alloc(body.length % 2)];
  });
  const payload = Buffer.concat(parts);
  const riff = Buffer.alloc(12);
  riff.write('RIFF', 0, 'latin1');
  riff.writeUInt32LE(payload.length + 4, 4);
  riff.write('WEBP', 8, 'latin1');
  return Buffer.concat([riff, payload]);
}

function webpSize(chunks: readonly { type: string; body: Buffer }[]): {
  width: number;
  height: number;
  alpha: boolean;
} {
  for (const { type, body } of chunks) {
    if (type === 'VP8L') {
      const bits = body.readUInt32LE(1);
      return {
        width: (bits & 0x3fff) + 1,
        height: ((bits >>> 14) & 0x3fff) + 1,
        alpha: (bits & 0x10000000) !== 0,
      };
    }
    if (type === 'VP8 ') {
      return { width: body.readUInt16LE(6) & 0x3fff, height: body.readUInt16LE(8) & 0x3fff, alpha: false };
    }
  }
  throw new Error('WebP file without a picture');
}
