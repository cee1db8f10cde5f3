import { ApiError } from '@semblance/common/errors';
import type { MediaKind } from '@semblance/engine-api/capabilities';
import { heifFault } from './heif-header.ts';
import { declaredKind } from './media-types.ts';
import { isAnimated, SNIFF_BYTES, sniff } from './sniff.ts';

/** Most bytes of a file, by kind. */
export type SizeLimits = Readonly<Record<MediaKind, number>>;

const MIB = 1024 * 1024;
export const SIZE_LIMITS: SizeLimits = { image: 45 * MIB, audio: 45 * MIB, video: 500 * MIB };

const ACCEPTED =
  'Accepted: JPEG, PNG, WebP, HEIC, AVIF and GIF images; MP3, WAV, FLAC, Ogg, M4A, AAC, AIFF and AMR audio; MP4, MOV, WebM, Matroska, AVI, MPEG, Ogg and 3GP video.';

/** What a file is. */
export interface Recognised {
  readonly kind: MediaKind;
  /** The type found in the bytes. */
  readonly contentType: string;
}

/** What a client says of a file. */
export interface Declared {
  readonly filename: string;
  readonly contentType: string | undefined;
}

/**
 * Says what a file is. Declaration and bytes must agree on the kind; the bytes decide the type within it.
 * @param head the first SNIFF_BYTES of the file, or all of it
 * @throws ApiError `unsupported_format`
 */
export function recognise(head: Buffer, declared: Declared): Recognised {
  const wanted = declaredKind(declared.contentType, declared.filename);
  if (wanted === 'refused')
    throw new ApiError('unsupported_format', `This file type is not accepted. ${ACCEPTED}`);
  const found = sniff(head);
  if (!found)
    throw new ApiError('unsupported_format', `The file's bytes are of no accepted type. ${ACCEPTED}`);
  // Of the kinds that the bytes allow, the first is the most likely.
  const kind = wanted ?? (Object.keys(found)[0] as MediaKind);
  const contentType = found[kind];
  if (!contentType) {
    const actual = Object.values(found)[0];
    throw new ApiError(
      'unsupported_format',
      `The file is declared to be ${kind}, but its bytes are ${actual}.`,
    );
  }
  return { kind, contentType };
}

/** The header of a HEIC picture has a few thousand bytes, and an animated PNG may have a profile before its mark. */
const HEADER_BYTES = 64 * 1024;

/** Returns the number of leading bytes that `examine` needs of a file of this type; a file may be shorter. */
export function headerBytes(contentType: string): number {
  return /^image\/(heic|avif|png)$/.test(contentType) ? HEADER_BYTES : SNIFF_BYTES;
}

/**
 * Looks into the header of a file.
 * @param head as many bytes as `headerBytes` says, or all of the file
 * @throws ApiError `unsupported_format` for a picture that no agent decodes
 */
export function examine(head: Buffer, contentType: string): { readonly animated: boolean } {
  const fault = /^image\/(heic|avif)$/.test(contentType) ? heifFault(head) : undefined;
  if (fault) throw new ApiError('unsupported_format', fault);
  return { animated: isAnimated(head, contentType) };
}

const NAMES: Readonly<Record<MediaKind, string>> = {
  image: 'An image',
  audio: 'An audio file',
  video: 'A video',
};

export function tooLarge(limit: number, kind?: MediaKind): ApiError {
  const name = kind ? NAMES[kind] : 'A file';
  return new ApiError('input_too_large', `${name} may have at most ${limit / MIB} MiB.`);
}
