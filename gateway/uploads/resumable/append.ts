import { Readable } from 'node:stream';
import { deadline } from '@semblance/common/async/abort';
import { ApiError } from '@semblance/common/errors';
import type { MediaKind } from '@semblance/engine-api/capabilities';
import type { ResumableUpload } from '@semblance/proto/semblance/control/v1/control';
import type { GatewayContext } from '../../http/context.ts';
import { StatusError } from '../../http/envelope.ts';
import { requestBytes } from '../../http/request-body.ts';
import { recognise, tooLarge } from '../recognise.ts';
import { SNIFF_BYTES } from '../sniff.ts';
import type { UploadOptions } from '../upload.ts';
import { BodyReader } from './body-reader.ts';
import { inform } from './headers.ts';

/** A part ends at this size, or after this time, so that a gateway that dies loses no more. */
const PART_BYTES = 8 * 1024 * 1024;
const PART_MS = 5_000;
/** Time that the object store may take after the last byte of a part, in ms. */
const STORE_LAST_MS = 30_000;
const READ_AHEAD_BYTES = 256 * 1024;

export interface Appended {
  readonly offset: number;
  /** Why the body ended early; undefined when all of it is stored. */
  readonly failure: unknown;
}

/** Bytes that may not be stored: the upload cannot be completed any more. */
export class SpoiltUploadError extends Error {
  override readonly name = 'SpoiltUploadError';
  readonly refusal: ApiError;

  constructor(refusal: ApiError) {
    super(refusal.message);
    this.refusal = refusal;
  }
}

/**
 * Stores the body of a request at the end of an upload, part by part. Each part counts when it is recorded; what came
 * before a break is recorded too.
 * @param stop ends the reading, as a break does
 * @throws SpoiltUploadError; StatusError 409 when another request took the upload
 */
export async function append(
  ctx: GatewayContext,
  upload: ResumableUpload,
  options: UploadOptions,
  stop: AbortSignal,
): Promise<Appended> {
  const signal = AbortSignal.any([stop, options.signal]);
  const body = new BodyReader(requestBytes(ctx.req, ctx.res, options.bodyLimits), signal);
  let offset = Number(upload.storedBytes);
  try {
    const kind = offset === 0 ? await kindOf(body, upload) : undefined;
    const largest = Math.min(Number(upload.maxBytes), kind ? options.limits[kind] : Number.POSITIVE_INFINITY);
    if (upload.length !== undefined && Number(upload.length) > largest)
      throw new SpoiltUploadError(tooLarge(largest, kind));
    for (let first = await body.next(); first; first = await body.next()) {
      if (first === 'late') continue;
      body.unread(first);
      const part = { start: offset, largest, most: mostBytes(upload, largest) };
      const stored = await storePart(ctx, upload, options, body, part);
      offset += stored.size;
      if (stored.size > 0) inform(ctx, { 'Upload-Offset': String(offset) });
      if (stored.over) throw new SpoiltUploadError(overLimit(upload, largest, kind));
    }
    return { offset, failure: body.failure };
  } finally {
    await body.close();
  }
}

const mostBytes = (upload: ResumableUpload, largest: number) =>
  upload.length === undefined ? largest : Math.min(largest, Number(upload.length));

function overLimit(upload: ResumableUpload, largest: number, kind: MediaKind | undefined): ApiError {
  if (upload.length !== undefined && Number(upload.length) <= largest)
    return new ApiError(
      'invalid_input',
      `The upload has more than the ${upload.length} bytes that were stated.`,
    );
  return tooLarge(largest, kind);
}

/** Refuses a file by its first bytes, before any is stored. A first request may have too few to say. */
async function kindOf(body: BodyReader, upload: ResumableUpload): Promise<MediaKind | undefined> {
  const head = await body.peek(SNIFF_BYTES);
  const whole = upload.length !== undefined && Number(upload.length) === head.length;
  if (head.length === 0 || (head.length < SNIFF_BYTES && !whole)) return undefined;
  try {
    const declared = { filename: upload.filename, contentType: upload.declaredType };
    return recognise(head.subarray(0, SNIFF_BYTES), declared).kind;
  } catch (error) {
    throw error instanceof ApiError ? new SpoiltUploadError(error) : error;
  }
}

interface PartLimits {
  readonly start: number;
  /** Most bytes of a file of this kind, and of this file. */
  readonly largest: number;
  readonly most: number;
}

/** Stores and records the next part of a body. @returns its size, and whether a byte came that may not be stored */
async function storePart(
  ctx: GatewayContext,
  upload: ResumableUpload,
  { store, control, bodyLimits }: UploadOptions,
  body: BodyReader,
  { start, largest, most }: PartLimits,
): Promise<{ size: number; over: boolean }> {
  const { fileKey, accountId, writer } = upload;
  const objectKey = `parts/${fileKey.split('/').at(-1)}/${start}-${writer}`;
  const until = performance.now() + PART_MS;
  let size = 0;
  let over = false;
  async function* bytes(): AsyncGenerator<Buffer> {
    while (size < PART_BYTES) {
      const left = until - performance.now();
      const chunk = left > 0 || size === 0 ? await body.next(Math.max(left, 1)) : 'late';
      if (chunk === undefined || chunk === 'late') return;
      const fits = chunk.subarray(0, most - start - size);
      over = fits.length < chunk.length;
      size += fits.length;
      if (fits.length > 0) yield fits;
      if (over) return;
    }
  }
  const end = deadline(
    new AbortController().signal,
    bodyLimits.totalMs + STORE_LAST_MS,
    'the object store took too long',
  );
  try {
    const source = Readable.from(bytes(), { objectMode: false, highWaterMark: READ_AHEAD_BYTES });
    const { sizeBytes } = await store.put(objectKey, source, {
      contentType: 'application/octet-stream',
      signal: end.signal,
    });
    if (sizeBytes !== size) throw new Error('the object store did not store every byte');
  } catch (cause) {
    throw new ApiError('internal_error', 'A part of the file could not be stored. Go on from the offset.', {
      cause,
      upstream: true,
    });
  } finally {
    end.release();
  }
  if (size === 0) {
    await store.delete(objectKey);
    return { size, over };
  }
  const sizes = { start: BigInt(start), sizeBytes: BigInt(size), maxBytes: BigInt(largest) };
  await control
    .recordUploadPart(ctx, { fileKey, accountId, writer, objectKey, ...sizes })
    .catch(async (error: ApiError) => {
      // Only a refusal is certain: after any other error the part may have been recorded.
      if (error.code !== 'not_found' && error.code !== 'at_capacity') throw error;
      await store.delete(objectKey).catch(() => {});
      throw error.code === 'not_found' ? taken() : error;
    });
  return { size, over };
}

/** The upload goes on in another request, or was given up. */
export const taken = () =>
  new StatusError(409, 'invalid_input', 'Another request continues this upload, or it was given up.');
