import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { deadline } from '@semblance/common/async/abort';
import { ApiError } from '@semblance/common/errors';
import type { ResumableUpload } from '@semblance/proto/semblance/control/v1/control';
import type { GatewayContext } from '../../http/context.ts';
import { examine, headerBytes, recognise, tooLarge } from '../recognise.ts';
import { SNIFF_BYTES } from '../sniff.ts';
import { KINDS, type UploadOptions } from '../upload.ts';
import { SpoiltUploadError, taken } from './append.ts';
import { BodyReader } from './body-reader.ts';

/** Longest time in which the parts become one object, in ms. */
const JOIN_MS = 600_000;
const READ_AHEAD_BYTES = 256 * 1024;

/**
 * Makes one object of the parts of an upload, and the upload usable. It may be done again after a crash: the same parts
 * give the same object.
 * @throws SpoiltUploadError for a file that is refused; StatusError 409 when another request took the upload
 */
export async function join(
  ctx: GatewayContext,
  upload: ResumableUpload,
  size: number,
  options: UploadOptions,
): Promise<string> {
  const { fileKey, accountId, keyId, writer } = upload;
  const { parts } = await options.control.listUploadParts(ctx, { fileKey, accountId });
  if (parts.reduce((sum, part) => sum + Number(part.sizeBytes), 0) !== size)
    throw new Error('the recorded parts of an upload are not as long as the upload');
  const end = deadline(options.signal, JOIN_MS, 'the object store took too long');
  const body = new BodyReader(partBytes(parts, options)[Symbol.asyncIterator](), end.signal);
  try {
    const { kind, contentType, animated } = await lookAt(body, upload, size, options);
    const hash = createHash('sha256');
    const source = Readable.from(hashed(body, hash), { objectMode: false, highWaterMark: READ_AHEAD_BYTES });
    const stored = await options.store.put(fileKey, source, { contentType, signal: end.signal });
    if (stored.sizeBytes !== size) throw new Error('the object store did not store every byte');
    const description = {
      kind: KINDS[kind],
      contentType,
      sizeBytes: BigInt(size),
      sha256: hash.digest(),
      animated,
    };
    const completed = await options.control
      .completeUpload(ctx, { fileKey, accountId, keyId, writer, ...description })
      .catch((error: ApiError) => {
        throw error.code === 'not_found' ? taken() : error;
      });
    return completed.url;
  } catch (cause) {
    if (cause instanceof ApiError || cause instanceof SpoiltUploadError) throw cause;
    throw new ApiError('internal_error', 'The file could not be put together. Complete the upload again.', {
      cause,
      upstream: true,
    });
  } finally {
    end.release();
    await body.close();
  }
}

async function* partBytes(
  parts: readonly { readonly objectKey: string }[],
  { store }: UploadOptions,
): AsyncGenerator<Buffer> {
  for (const { objectKey } of parts)
    for await (const chunk of await store.read(objectKey)) yield chunk as Buffer;
}

async function lookAt(body: BodyReader, upload: ResumableUpload, size: number, { limits }: UploadOptions) {
  try {
    const first = await body.peek(SNIFF_BYTES);
    if (body.failure) throw body.failure;
    if (size === 0) throw new ApiError('invalid_input', 'The file is empty.');
    const declared = { filename: upload.filename, contentType: upload.declaredType };
    const found = recognise(first.subarray(0, SNIFF_BYTES), declared);
    if (size > limits[found.kind]) throw tooLarge(limits[found.kind], found.kind);
    const length = headerBytes(found.contentType);
    const head = await body.peek(length);
    if (body.failure) throw body.failure;
    return { ...found, ...examine(head.subarray(0, length), found.contentType) };
  } catch (error) {
    throw error instanceof ApiError ? new SpoiltUploadError(error) : error;
  }
}

async function* hashed(body: BodyReader, hash: ReturnType<typeof createHash>): AsyncGenerator<Buffer> {
  for (let chunk = await body.next(); chunk && chunk !== 'late'; chunk = await body.next()) {
    hash.update(chunk);
    yield chunk;
  }
  // An object that ends early must not be stored as a whole one.
  if (body.failure) throw body.failure;
}
