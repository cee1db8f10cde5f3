import { Readable } from 'node:stream';
import { ApiError } from '@semblance/common/errors';
import type { DirectoryStore } from '@semblance/objects/directory-store';
import type { Handler } from '../http/context.ts';
import type { BodyLimits } from '../http/pace.ts';
import { ClientGoneError, requestBytes } from '../http/request-body.ts';
import { requireGrant, sayObject } from './links.ts';

export interface WriteFileOptions {
  readonly store: DirectoryStore;
  readonly bodyLimits: BodyLimits;
  readonly signal: AbortSignal;
}

/**
 * Handles PUT to a signed link of the directory store, by which agents store results, and so do services without
 * access to the folder. The object is stored completely or not at all.
 */
export function writeFile({ store, bodyLimits, signal }: WriteFileOptions): Handler {
  return async (ctx) => {
    const { key, contentType = '', maxBytes = 0 } = requireGrant(ctx, 'PUT', store);
    if (ctx.headers['content-type'] !== contentType)
      throw new ApiError('invalid_input', `This link takes the Content-Type ${contentType} alone.`);
    const declared = ctx.headers['content-length'];
    if (declared !== undefined && Number(declared) > maxBytes) throw tooLarge(maxBytes);
    const source = Readable.from(limited(requestBytes(ctx.req, ctx.res, bodyLimits), maxBytes), {
      objectMode: false,
    });
    await put(store, key, source, contentType, signal);
    sayObject(ctx, 'stored');
    ctx.status = 200;
    ctx.set('Content-Length', '0');
    ctx.body = null;
    ctx.status = 200;
  };
}

async function put(
  store: DirectoryStore,
  key: string,
  source: Readable,
  contentType: string,
  signal: AbortSignal,
) {
  try {
    await store.put(key, source, { contentType, signal });
  } catch (error) {
    if (error instanceof ApiError || error instanceof ClientGoneError) throw error;
    throw new ApiError('internal_error', 'The file could not be stored. Try again.', { cause: error });
  }
}

async function* limited(source: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<Buffer> {
  let total = 0;
  for await (const chunk of source) {
    total += chunk.length;
    if (total > maxBytes) throw tooLarge(maxBytes);
    yield chunk;
  }
}

function tooLarge(maxBytes: number): ApiError {
  return new ApiError('input_too_large', `This link takes at most ${maxBytes} bytes.`);
}
