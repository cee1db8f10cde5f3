import { Readable } from 'node:stream';
import { deadline } from '@semblance/common/async/abort';
import { type ClientLog, createClientLog } from '@semblance/common/client-log';
import { ApiError, describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import type { MediaKind as Kind } from '@semblance/engine-api/capabilities';
import type { ObjectStore } from '@semblance/objects/store';
import {
  type BeginUploadResponse,
  type Caller,
  MediaKind,
} from '@semblance/proto/semblance/control/v1/control';
import { requireCaller } from '../auth/bearer.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { GatewayContext, Handler } from '../http/context.ts';
import type { BodyLimits } from '../http/pace.ts';
import { ClientGoneError, requestBytes } from '../http/request-body.ts';
import type { GatewayMetrics } from '../metrics.ts';
import { boundaryOf } from './multipart-header.ts';
import { expectedSize, receiveFile, UNKNOWN_BYTES } from './receive-file.ts';
import type { SizeLimits } from './recognise.ts';
import type { UploadsUnderWay } from './under-way.ts';
import type { TakenRoom, VolumeRoom } from './volume-room.ts';

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
  /** Room on the volume of the objects. Undefined: they are on none that the gateway knows. */
  readonly volume: VolumeRoom | undefined;
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
  const clientLog = createClientLog(options.logger);
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const size = await sizeOf(ctx, options, caller);
    const reserved = await control.beginUpload(ctx, {
      caller,
      leastBytes: BigInt(size.leastBytes),
      reserveBytes: BigInt(size.reserveBytes),
    });
    metrics.uploadBegan();
    const leave = options.underWay.enter(reserved.accountId);
    let room: TakenRoom | undefined;
    try {
      if (!leave)
        throw new ApiError(
          'at_capacity',
          'This account has too many uploads under way. Retry when one of them has ended.',
        );
      room = await options.volume?.take(size.reserveBytes);
      const { url, sizeBytes } = await store(ctx, reserved, options, room);
      metrics.uploadEnded('stored', sizeBytes);
      ctx.set('Cache-Control', 'no-store');
      ctx.body = { file_key: reserved.fileKey, url };
    } catch (error) {
      const refused =
        error instanceof ClientGoneError || (error instanceof ApiError && error.httpStatus < 500);
      metrics.uploadEnded(refused ? 'refused' : 'failed', 0);
      await giveUp(ctx, reserved, control, clientLog);
      throw error;
    } finally {
      leave?.();
      room?.giveBack();
    }
  };
}

/** @throws ApiError `input_too_large`, and first `unauthorized` */
async function sizeOf(ctx: GatewayContext, { control, limits }: UploadOptions, caller: Caller) {
  try {
    return expectedSize(contentLengthOf(ctx), limits);
  } catch (error) {
    await control.authorize(ctx, { caller });
    throw error;
  }
}

/** Yields the bytes of a file, and has room set aside for those of an unknown number. @throws ApiError at_capacity */
async function* withRoom(
  bytes: AsyncIterable<Buffer>,
  ctx: GatewayContext,
  { fileKey, accountId, reservedBytes }: BeginUploadResponse,
  control: ControlPlane,
): AsyncGenerator<Buffer> {
  let left = Number(reservedBytes);
  for await (const chunk of bytes) {
    left -= chunk.length;
    while (left < 0) {
      const request = { fileKey, accountId, moreBytes: BigInt(UNKNOWN_BYTES) };
      const extended = await control.extendUpload(ctx, request).catch(lateAsTooLate);
      left += Number(extended.reservedBytes - (reservedBytes ?? 0n));
      reservedBytes = extended.reservedBytes;
    }
    yield chunk;
  }
}

async function store(
  ctx: GatewayContext,
  reserved: BeginUploadResponse,
  options: UploadOptions,
  room: TakenRoom | undefined,
): Promise<{ url: string; sizeBytes: number }> {
  const { fileKey, accountId, keyId } = reserved;
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
    const watched = room ? room.watch(file.bytes) : file.bytes;
    // The length of a request is known, or the control plane is one of a release without room.
    const known = contentLengthOf(ctx) !== undefined || reserved.reservedBytes === undefined;
    const bytes = known ? watched : withRoom(watched, ctx, reserved, options.control);
    const source = Readable.from(bytes, { objectMode: false, highWaterMark: READ_AHEAD_BYTES });
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
    .completeUpload(ctx, { fileKey, accountId, keyId, ...description })
    .catch(lateAsTooLate);
  return { url, sizeBytes };
}

/** Releases the reservation and the bytes now instead of waiting for the sweep. */
async function giveUp(
  ctx: GatewayContext,
  reserved: BeginUploadResponse,
  control: ControlPlane,
  log: ClientLog,
): Promise<void> {
  const { fileKey, accountId } = reserved;
  try {
    await control.abortUpload(ctx, { fileKey, accountId });
  } catch (error) {
    log.warn(
      'give up an upload',
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

/** @throws ApiError `invalid_input` where the reservation expired first: its setting can be shorter than an upload may take */
function lateAsTooLate(error: ApiError): never {
  if (error.code !== 'not_found') throw error;
  const message = 'The upload took too long and was given up: upload again.';
  throw new ApiError('invalid_input', message, { cause: error });
}

function storeFailed(cause: unknown): ApiError {
  return new ApiError('internal_error', 'The file could not be stored. Try again.', {
    cause,
    upstream: true,
  });
}
