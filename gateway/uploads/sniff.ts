import type { MediaKind } from '@semblance/engine-api/capabilities';

/** Number of leading bytes that `sniff` needs; a file may be shorter. */
export const SNIFF_BYTES = 1024;

/** The type of a file for each kind that its first bytes allow. Containers of sound and pictures allow two. */
export type Sniffed = Partial<Readonly<Record<MediaKind, string>>>;

/**
 * Recognises the accepted formats by their signatures (the WHATWG MIME Sniffing Standard where it covers them,
 * otherwise the formats' own specifications).
 * @param head the first SNIFF_BYTES of the file, or all of it
 * @returns undefined when it is none of them
 */
export function sniff(head: Buffer): Sniffed | undefined {
  const at = (offset: number, text: string) =>
    head.length >= offset + text.length && head.toString('latin1', offset, offset + text.length) === text;

  if (at(0, '\xff\xd8\xff')) return { image: 'image/jpeg' };
  if (at(0, '\x89PNG\r\n\x1a\n')) return { image: 'image/png' };
  if (at(0, 'RIFF') || at(0, 'RF64')) {
    if (at(8, 'WEBP')) return { image: 'image/webp' };
    if (at(8, 'WAVE')) return { audio: 'audio/wav' };
    if (at(8, 'AVI ')) return { video: 'video/x-msvideo' };
    return undefined;
  }
  if (/^GIF8[79]a$/.test(head.toString('latin1', 0, 6))) return { image: 'image/gif' };
  if (at(4, 'ftyp')) return isoMedia(head);
  if (isOldQuickTime(head)) return { video: 'video/quicktime' };
  if (at(0, '\x1a\x45\xdf\xa3')) return matroska(head);
  if (at(0, 'OggS')) return ogg(head);
  if (at(0, 'fLaC')) return { audio: 'audio/flac' };
  if (at(0, 'FORM') && (at(8, 'AIFF') || at(8, 'AIFC'))) return { audio: 'audio/aiff' };
  if (at(0, '#!AMR\n') || at(0, '#!AMR-WB\n')) return { audio: 'audio/amr' };
  if (at(0, '\x00\x00\x01\xba') || at(0, '\x00\x00\x01\xb3')) return { video: 'video/mpeg' };
  if (isTransportStream(head)) return { video: 'video/mp2t' };
  if (at(0, 'ID3')) return { audio: 'audio/mpeg' };
  return mpegAudioFrame(head);
}

/** Brands of still pictures in the same container as video that are not accepted. */
const REFUSED_BRANDS =
  /^(hev[cxms]|vvi[cs]|evi[cs]|j2k[is]|jpe[gs]|msf1|miaf|avio|jp2 |jpx |jpm |mjp2|crx |jxl )$/;

/** ISO base media: the major brand of `ftyp` separates pictures and sound-only files from the rest. */
function isoMedia(head: Buffer): Sniffed | undefined {
  const brand = head.toString('latin1', 8, 12);
  const picture = heifType(head);
  if (picture) return { image: picture };
  if (brand.length < 4 || REFUSED_BRANDS.test(brand)) return undefined;
  if (/^(M4A |M4B |M4P |F4A |F4B )$/.test(brand)) return { audio: 'audio/mp4' };
  if (brand === 'qt  ') return { video: 'video/quicktime', audio: 'audio/mp4' };
  if (brand.startsWith('3g')) return { video: 'video/3gpp', audio: 'audio/mp4' };
  return { video: 'video/mp4', audio: 'audio/mp4' };
}

/**
 * Returns the type of a HEIF file by its brands, the major one first. Files of phones have the brand of their codec;
 * that of the container alone says nothing, so a file with it counts as HEIC.
 */
function heifType(head: Buffer): string | undefined {
  const major = head.toString('latin1', 8, 12);
  if (!/^(hei[cxms]|avi[fs]|mif[12]|msf1|miaf)$/.test(major)) return undefined;
  const end = Math.min(head.readUInt32BE(0), head.length, 256);
  const brands = [major];
  for (let at = 16; at + 4 <= end; at += 4) brands.push(head.toString('latin1', at, at + 4));
  if (brands.some((brand) => /^avi[fs]$/.test(brand))) return 'image/avif';
  return brands.some((brand) => /^(hei[cxms]|mif[12])$/.test(brand)) ? 'image/heic' : undefined;
}

/**
 * Whether a picture moves, so that it can stand in the place of a video: every GIF (its frames come one by one), and
 * WebP and PNG whose headers say so.
 */
export function isAnimated(head: Buffer, type: string): boolean {
  if (type === 'image/gif') return true;
  // The flags of the extended header (WebP container specification, 2.7).
  if (type === 'image/webp') return head.toString('latin1', 12, 16) === 'VP8X' && ((head[20] ?? 0) & 2) !== 0;
  return type === 'image/png' && hasAnimationChunk(head);
}

/** PNG, third edition, 11.3.6: `acTL` comes before the pixels. */
function hasAnimationChunk(head: Buffer): boolean {
  for (let at = 8; at + 8 <= head.length; ) {
    const type = head.toString('latin1', at + 4, at + 8);
    if (type === 'acTL') return true;
    if (type === 'IDAT') return false;
    at += 12 + head.readUInt32BE(at);
  }
  return false;
}

/** QuickTime files from before `ftyp` begin with one of these atoms. */
function isOldQuickTime(head: Buffer): boolean {
  const atom = head.toString('latin1', 4, 8);
  if (atom === 'moov' || atom === 'mdat') return true;
  const next = head.length >= 8 ? head.readUInt32BE(0) : 0;
  if (!/^(wide|free|skip|pnot)$/.test(atom) || next < 8 || next + 8 > head.length) return false;
  return /^(mdat|moov|free|wide|skip)$/.test(head.toString('latin1', next + 4, next + 8));
}

/** EBML: the document type says WebM or Matroska; only the later tracks say whether there are pictures. */
function matroska(head: Buffer): Sniffed | undefined {
  // Element 0x4282 (DocType), a one-byte size, the name.
  const at = head.indexOf('\x42\x82', 4, 'latin1');
  if (at < 0 || at + 3 > head.length) return undefined;
  const size = (head[at + 2] ?? 0) & 0x7f;
  const docType = head.toString('latin1', at + 3, at + 3 + size).replace(/\0+$/, '');
  if (docType === 'webm') return { video: 'video/webm', audio: 'audio/webm' };
  if (docType === 'matroska') return { video: 'video/x-matroska', audio: 'audio/x-matroska' };
  return undefined;
}

/** Ogg: the first packet names the codec of the first stream; picture streams come first. */
function ogg(head: Buffer): Sniffed {
  const segments = head[26] ?? 0;
  const packet = head.toString('latin1', 27 + segments, 27 + segments + 8);
  if (packet.startsWith('\x80theora') || packet.startsWith('BBCD\0')) return { video: 'video/ogg' };
  if (packet.startsWith('fishead')) return { video: 'video/ogg', audio: 'audio/ogg' };
  return { audio: 'audio/ogg' };
}

/** Packets of 188 bytes (or 192, with a leading time code), each with the sync byte. */
function isTransportStream(head: Buffer): boolean {
  const synced = (first: number, size: number) =>
    head.length > first + 2 * size && [0, 1, 2].every((packet) => head[first + packet * size] === 0x47);
  return synced(0, 188) || synced(4, 192);
}

/** A frame header of MPEG audio (layers I to III), or of AAC in ADTS. */
function mpegAudioFrame(head: Buffer): Sniffed | undefined {
  if (head.length < 4) return undefined;
  const word = head.readUInt32BE(0);
  if (word >>> 20 === 0xfff && ((word >>> 17) & 3) === 0) {
    const samplingIndex = (word >>> 10) & 15;
    return samplingIndex < 13 ? { audio: 'audio/aac' } : undefined;
  }
  const version = (word >>> 19) & 3;
  const layer = (word >>> 17) & 3;
  const bitrate = (word >>> 12) & 15;
  const sampling = (word >>> 10) & 3;
  const plausible = word >>> 21 === 0x7ff && version !== 1 && layer !== 0 && bitrate !== 15 && bitrate !== 0;
  return plausible && sampling !== 3 ? { audio: 'audio/mpeg' } : undefined;
}
