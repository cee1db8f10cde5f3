import { Readable } from 'node:stream';
import type { MediaKind as Kind } from '#common/capabilities.ts';
import { ApiError, describeError } from '#common/errors.ts';
import type { Logger } from '#common/logging.ts';
import type { ObjectStore } from '#common/objects/store.ts';
import { type BeginUploadResponse, MediaKind } from '#proto/semblance/control/v1/control.ts';
import { requireCaller } from '../auth/bearer.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { GatewayContext, Handler } from '../http/context.ts';
import { ClientGoneError, requestBytes } from '../http/request-body.ts';
import type { GatewayMetrics } from '../metrics.ts';
import { boundaryOf } from './multipart-header.ts';
import { receiveFile, type SizeLimits } from './receive-file.ts';

/** Bytes read ahead of the object store. */
const READ_AHEAD_BYTES = 256 * 1024;

const KINDS: Record<Kind, MediaKind> = {
  image: MediaKind.MEDIA_KIND_IMAGE,
  audio: MediaKind.MEDIA_KIND_AUDIO,
  video: MediaKind.MEDIA_KIND_VIDEO,
};

export interface UploadOptions {
  readonly control: ControlPlane;
  readonly store: ObjectStore;
  readonly logger: Logger;
  readonly metrics: GatewayMetrics;
  readonly limits: SizeLimits;
  /** Longest wait for the next bytes of an upload. */
  readonly idleMs: number;
  /** Aborted when the gateway must end: uploads under way are given up. */
  readonly signal: AbortSignal;
}

/**
 * POST /uploads: the control plane reserves a key, the file goes through to the object store as it arrives, and only a
 * whole and sound form makes the key usable. Whatever goes wrong on the way gives the reservation up.
 */
export function upload(options: UploadOptions): Handler {
  const { control, metrics } = options;
  return async (ctx) => {
    const caller = requireCaller(ctx.headers.authorization);
    const reserved = await control.beginUpload(ctx, { caller });
    metrics.uploadBegan();
    try {
      const { url, sizeBytes } = await store(ctx, reserved, options);
      metrics.uploadEnded('stored', sizeBytes);
      ctx.set('Cache-Control', 'no-store');
      ctx.body = { file_key: reserved.fileKey, url };
    } catch (error) {
      const refused =
        error instanceof ClientGoneError || (error instanceof ApiError && error.httpStatus < 500);
      metrics.uploadEnded(refused ? 'refused' : 'failed', 0);
      await giveUp(ctx, reserved, options);
      throw error;
    }
  };
}

async function store(
  ctx: GatewayContext,
  { fileKey, accountId }: BeginUploadResponse,
  options: UploadOptions,
): Promise<{ url: string; sizeBytes: number }> {
  const file = await receiveFile({
    source: requestBytes(ctx.req, ctx.res, options.idleMs),
    boundary: requireBoundary(ctx.headers['content-type']),
    contentLength: contentLengthOf(ctx),
    limits: options.limits,
  });
  const { contentType } = file;
  let stored: { sizeBytes: number };
  try {
    const source = Readable.from(file.bytes, { objectMode: false, highWaterMark: READ_AHEAD_BYTES });
    stored = await options.store.put(fileKey, source, { contentType, signal: options.signal });
  } catch (error) {
    throw isAnswer(error) ? error : storeFailed(error);
  }
  const { sizeBytes, sha256 } = file.result();
  if (stored.sizeBytes !== sizeBytes) throw new Error('the object store did not store every byte');
  const { url } = await options.control.completeUpload(ctx, {
    fileKey,
    accountId,
    kind: KINDS[file.kind],
    contentType,
    sizeBytes: BigInt(sizeBytes),
    sha256,
  });
  return { url, sizeBytes };
}

/** The reservation and the bytes would be swept in the end; this does it now. */
async function giveUp(ctx: GatewayContext, reserved: BeginUploadResponse, options: UploadOptions) {
  const { fileKey, accountId } = reserved;
  try {
    await options.control.abortUpload(ctx, { fileKey, accountId });
  } catch (error) {
    options.logger.warn(
      { requestId: ctx.state.requestId, reason: describeError(error) },
      'could not give up an upload; it will be swept',
    );
  }
}

function requireBoundary(contentType: string | undefined): string {
  const boundary = boundaryOf(contentType);
  if (boundary === undefined)
    throw new ApiError(
      'invalid_input',
      'The body must be a form: "Content-Type: multipart/form-data" with a boundary, and the file in the field "file".',
    );
  return boundary;
}

function contentLengthOf(ctx: GatewayContext): number | undefined {
  const header = ctx.headers['content-length'];
  return header === undefined ? undefined : Number(header);
}

function isAnswer(error: unknown): boolean {
  return error instanceof ApiError || error instanceof ClientGoneError;
}

function storeFailed(cause: unknown): ApiError {
  return new ApiError('internal_error', 'The file could not be stored. Try again.', {
    cause,
    upstream: true,
  });
}
