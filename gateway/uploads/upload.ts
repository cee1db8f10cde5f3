import { Readable } from 'node:stream';
import { deadline } from '@semblance/common/async/abort';
import { ApiError, describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import type { MediaKind as Kind } from '@semblance/engine-api/capabilities';
import type { ObjectStore } from '@semblance/objects/store';
import { type BeginUploadResponse, MediaKind } from '@semblance/proto/semblance/control/v1/control';
import { requireCaller } from '../auth/bearer.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { GatewayContext, Handler } from '../http/context.ts';
import type { BodyLimits } from '../http/pace.ts';
import { ClientGoneError, requestBytes } from '../http/request-body.ts';
import type { GatewayMetrics } from '../metrics.ts';
import { boundaryOf } from './multipart-header.ts';
import { receiveFile } from './receive-file.ts';
import type { SizeLimits } from './recognise.ts';
import type { UploadsUnderWay } from './under-way.ts';

/** Most bytes that are read ahead of the object store. */
const READ_AHEAD_BYTES = 256 * 1024;
/** Time that the object store may take after the last possible byte, in ms. */
const STORE_LAST_MS = 10_000;

export const KINDS: Record<Kind, MediaKind> = {
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
  readonly underWay: UploadsUnderWay;
  readonly bodyLimits: BodyLimits;
  /** Aborted when the gateway must end, so that running uploads stop. */
  readonly signal: AbortSignal;
}

/**
 * Handles POST /uploads: the control plane reserves a key, the file is passed to the object store as it arrives,
 * and only a complete and valid form makes the key usable. Every failure on the way gives the reservation up.
 */
export function upload(options: UploadOptions): Handler {
  const { control, metrics } = options;
  return async (ctx) => {
    const caller = requireCaller(ctx.headers.authorization);
    const reserved = await control.beginUpload(ctx, { caller });
    metrics.uploadBegan();
    const leave = options.underWay.enter(reserved.accountId);
    try {
      if (!leave)
        throw new ApiError(
          'at_capacity',
          'This account has too many uploads under way. Retry when one of them has ended.',
        );
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
    } finally {
      leave?.();
    }
  };
}

async function store(
  ctx: GatewayContext,
  { fileKey, accountId }: BeginUploadResponse,
  options: UploadOptions,
): Promise<{ url: string; sizeBytes: number }> {
  const { bodyLimits } = options;
  const lastMoment = performance.now() + bodyLimits.totalMs + STORE_LAST_MS;
  const file = await receiveFile({
    source: requestBytes(ctx.req, ctx.res, bodyLimits),
    boundary: requireBoundary(ctx.headers['content-type']),
    contentLength: contentLengthOf(ctx),
    limits: options.limits,
  });
  const { contentType } = file;
  let stored: { sizeBytes: number };
  const end = deadline(options.signal, lastMoment - performance.now(), 'the object store took too long');
  try {
    const source = Readable.from(file.bytes, { objectMode: false, highWaterMark: READ_AHEAD_BYTES });
    stored = await options.store.put(fileKey, source, { contentType, signal: end.signal });
  } catch (error) {
    throw isAnswer(error) ? error : storeFailed(error);
  } finally {
    end.release();
  }
  const { sizeBytes, sha256 } = file.result();
  if (stored.sizeBytes !== sizeBytes) throw new Error('the object store did not store every byte');
  const { animated } = file;
  const description = { kind: KINDS[file.kind], contentType, sizeBytes: BigInt(sizeBytes), sha256, animated };
  const { url } = await options.control
    .completeUpload(ctx, { fileKey, accountId, ...description })
    .catch((error: ApiError) => {
      throw error.code === 'not_found' ? tooLate(error) : error;
    });
  return { url, sizeBytes };
}

/** Releases the reservation and the bytes now instead of waiting for the sweep. */
async function giveUp(ctx: GatewayContext, reserved: BeginUploadResponse, options: UploadOptions) {
  const { fileKey, accountId } = reserved;
  try {
    await options.control.abortUpload(ctx, { fileKey, accountId });
  } catch (error) {
    options.logger.warn(
      { requestId: ctx.state.requestId, reason: describeError(error) },
      'cannot give up an upload, the sweep will',
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

/** The reservation expired first: its setting can be shorter than an upload may take. */
function tooLate(cause: unknown): ApiError {
  return new ApiError('invalid_input', 'The upload took too long and was given up: upload again.', { cause });
}

function storeFailed(cause: unknown): ApiError {
  return new ApiError('internal_error', 'The file could not be stored. Try again.', {
    cause,
    upstream: true,
  });
}
