import { createHash } from 'node:crypto';
import { ApiError } from '@semblance/common/errors';
import type { MediaKind } from '@semblance/engine-api/capabilities';
import { MultipartReader } from './multipart.ts';
import { MultipartError } from './multipart-header.ts';
import { examine, headerBytes, recognise, type SizeLimits, tooLarge } from './recognise.ts';
import { SNIFF_BYTES } from './sniff.ts';

/** Most bytes of a form beside its file. A declared length beyond it proves that the file itself is too large. */
const FORM_OVERHEAD_BYTES = 1024 * 1024;

export interface IncomingFile {
  readonly kind: MediaKind;
  /** The type found in the bytes. */
  readonly contentType: string;
  /** Whether it is a picture that moves. */
  readonly animated: boolean;
  /**
   * The bytes of the file. They end only when the whole form is valid, so their end is the permission to keep them;
   * before that every fault is thrown.
   */
  readonly bytes: AsyncGenerator<Buffer>;
  /** Available after `bytes` ended. */
  result(): { sizeBytes: number; sha256: Buffer };
}

export interface ReceiveOptions {
  readonly source: AsyncIterable<Buffer>;
  readonly boundary: string;
  /** The request's Content-Length, if present. */
  readonly contentLength: number | undefined;
  readonly limits: SizeLimits;
}

/** Room for a file whose size is not known, in bytes. */
export const UNKNOWN_BYTES = 64 * 1024 * 1024;

/** What is known of the size of the file in a form, in bytes. */
export interface ExpectedSize {
  readonly leastBytes: number;
  /** Bytes to set room aside for. */
  readonly reserveBytes: number;
}

/**
 * Returns what the length of a request says of the file in it.
 * @throws ApiError `input_too_large` when it is longer than a form with the largest file
 */
export function expectedSize(contentLength: number | undefined, limits: SizeLimits): ExpectedSize {
  const largest = Math.max(...Object.values(limits));
  if (contentLength === undefined) return { leastBytes: 0, reserveBytes: Math.min(largest, UNKNOWN_BYTES) };
  if (contentLength > largest + FORM_OVERHEAD_BYTES) throw tooLarge(largest);
  return {
    leastBytes: Math.max(0, contentLength - FORM_OVERHEAD_BYTES),
    reserveBytes: Math.min(contentLength, largest),
  };
}

/**
 * Reads a form up to its file and returns what the file is; the rest is read with `bytes`.
 * @throws ApiError `invalid_input`, `unsupported_format` or `input_too_large`, as soon as it is certain
 */
export async function receiveFile(options: ReceiveOptions): Promise<IncomingFile> {
  const { contentLength, limits } = options;
  const reader = new MultipartReader(options.source, options.boundary);
  const fields = { bytes: 0 };
  try {
    const part = await nextFile(reader, fields);
    if (!part) throw new ApiError('invalid_input', 'The form has no file: send one in the field "file".');
    const chunks = reader.body();
    const first = await readHead(chunks, [], SNIFF_BYTES);
    if (first.length === 0) throw new ApiError('invalid_input', 'The file is empty.');
    const { kind, contentType } = recognise(first.subarray(0, SNIFF_BYTES), part);
    const headLength = headerBytes(contentType);
    const head = await readHead(chunks, [first], headLength);
    const { animated } = examine(head.subarray(0, headLength), contentType);
    const limit = limits[kind];
    if (contentLength !== undefined && contentLength > limit + FORM_OVERHEAD_BYTES)
      throw tooLarge(limit, kind);

    const hash = createHash('sha256');
    let sizeBytes = 0;
    const take = (chunk: Buffer) => {
      sizeBytes += chunk.length;
      if (sizeBytes > limit) throw tooLarge(limit, kind);
      hash.update(chunk);
      return chunk;
    };
    async function* bytes(): AsyncGenerator<Buffer> {
      try {
        yield take(head);
        for await (const chunk of chunks) yield take(chunk);
        if (await nextFile(reader, fields))
          throw new ApiError(
            'invalid_input',
            'The form has more than one file; an upload takes exactly one.',
          );
      } catch (error) {
        throw refusalFor(error);
      } finally {
        await reader.close();
      }
    }
    const result = () => ({ sizeBytes, sha256: hash.digest() });
    return { kind, contentType, animated, bytes: bytes(), result };
  } catch (error) {
    await reader.close();
    throw refusalFor(error);
  }
}

/** Goes to the next file, past plain fields, which are not used. */
async function nextFile(reader: MultipartReader, fields: { bytes: number }) {
  for (;;) {
    const part = await reader.nextPart();
    if (!part) return undefined;
    if (part.filename !== undefined) {
      if (part.name === 'file') return { ...part, filename: part.filename };
      throw new ApiError('invalid_input', 'The file must be in the field "file".');
    }
    if (part.name === 'file')
      throw new ApiError('invalid_input', 'The field "file" must be a file: its part needs a filename.');
    for await (const chunk of reader.body()) {
      fields.bytes += chunk.length;
      if (fields.bytes > FORM_OVERHEAD_BYTES / 2)
        throw new ApiError('invalid_input', 'The fields beside the file are too large.');
    }
  }
}

/** Returns what was read before, and more until there are this many bytes or the file ends. */
async function readHead(chunks: AsyncGenerator<Buffer>, before: Buffer[], bytes: number): Promise<Buffer> {
  const head = [...before];
  let length = head.reduce((sum, chunk) => sum + chunk.length, 0);
  while (length < bytes) {
    const { done, value } = await chunks.next();
    if (done) break;
    head.push(value);
    length += value.length;
  }
  return head.length === 1 && head[0] ? head[0] : Buffer.concat(head);
}

function refusalFor(error: unknown): unknown {
  return error instanceof MultipartError
    ? new ApiError('invalid_input', error.message, { cause: error })
    : error;
}
