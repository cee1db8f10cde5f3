import type { ClientLog } from '@semblance/common/client-log';
import { ApiError, describeError } from '@semblance/common/errors';
import type { Caller, ResumableUpload } from '@semblance/proto/semblance/control/v1/control';
import { requireCaller } from '../../auth/bearer.ts';
import type { GatewayContext, Handler } from '../../http/context.ts';
import { StatusError } from '../../http/envelope.ts';
import { ClientGoneError } from '../../http/request-body.ts';
import { filenameIn } from '../multipart-header.ts';
import { tooLarge } from '../recognise.ts';
import type { UploadOptions } from '../upload.ts';
import { append, SpoiltUploadError } from './append.ts';
import type { Appends } from './appends.ts';
import { inform, PARTIAL_UPLOAD, setState, type UploadFields, uploadFields, uploadLimit } from './headers.ts';
import { join } from './join.ts';

export interface ResumableOptions extends UploadOptions {
  readonly appends: Appends;
  readonly clientLog: ClientLog;
}

/** Path of the resources, below the base address. */
export const RESUMABLE_PATH = '/resumable-uploads';

const LONGEST_NAME = 255;
const LONGEST_TYPE = 255;

const largestOf = ({ limits }: UploadOptions) => Math.max(...Object.values(limits));
const nameOf = ({ keySha256, sessionSha256 }: Caller, fileKey: string) =>
  `${Buffer.from(sessionSha256 ?? keySha256).toString('hex')} ${fileKey}`;
const fileKeyOf = (ctx: GatewayContext) => `api/${String(ctx.params.upload_id).slice(0, 200)}`;
const requireComplete = ({ complete }: UploadFields): boolean => {
  if (complete === undefined)
    throw new ApiError(
      'invalid_input',
      'The header Upload-Complete must say whether this body ends the file: ?1 or ?0.',
    );
  return complete;
};

/** Handles POST /resumable-uploads: begins an upload, whose body may be the whole file, a part of it, or empty. */
export function beginResumable(options: ResumableOptions): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const largest = largestOf(options);
    const fields = await checked(ctx, caller, options, () => {
      const found = uploadFields(ctx, 0);
      requireComplete(found);
      return found;
    });
    ctx.set('Upload-Limit', uploadLimit(largest));
    const upload = await options.control.beginResumableUpload(ctx, {
      caller,
      declaredType: ctx.headers['content-type']?.slice(0, LONGEST_TYPE),
      filename: (filenameIn(ctx.headers['content-disposition']) ?? '').slice(0, LONGEST_NAME),
      length: fields.length === undefined ? undefined : BigInt(fields.length),
      maxBytes: BigInt(largest),
    });
    const location = `${ctx.path}/${upload.fileKey.slice('api/'.length)}`;
    ctx.set('Location', location);
    const limit = uploadLimit(Number(upload.maxBytes), Number(upload.expiresInSeconds));
    inform(ctx, { Location: location, 'Upload-Limit': limit });
    await goOn(ctx, caller, upload, fields, options);
    if (ctx.status === 204) {
      // Koa would write the name of the status.
      ctx.body = null;
      ctx.status = 201;
    }
  };
}

/** Handles PATCH /resumable-uploads/{upload_id}: continues at the offset that the state says. */
export function continueResumable(options: ResumableOptions): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const fileKey = fileKeyOf(ctx);
    const fields = await checked(ctx, caller, options, () => {
      const found = uploadFields(ctx);
      if (ctx.headers['content-type']?.split(';')[0]?.trim().toLowerCase() !== PARTIAL_UPLOAD)
        throw new ApiError('invalid_input', `The body must have the type ${PARTIAL_UPLOAD}.`);
      requireComplete(found);
      if (found.offset === undefined)
        throw new ApiError(
          'invalid_input',
          'The header Upload-Offset must say where the body continues the file.',
        );
      return found;
    });
    await options.appends.stop(nameOf(caller, fileKey));
    const length = fields.length === undefined ? undefined : BigInt(fields.length);
    // A wrong offset is told before a length that is wrong because of it.
    const byOffset = ctx.headers['upload-length'] === undefined ? undefined : length;
    const upload = await options.control.takeResumableUpload(ctx, { caller, fileKey, length: byOffset });
    setState(ctx, upload);
    if (fields.offset !== Number(upload.storedBytes)) {
      ctx.set('Upload-Complete', '?0');
      throw new StatusError(
        409,
        'invalid_input',
        `The upload goes on at ${upload.storedBytes}, not at ${fields.offset} (Upload-Offset).`,
      );
    }
    if (upload.url !== undefined) return repeat(ctx, upload, fields);
    requireFitting(upload, fields);
    await goOn(ctx, caller, upload.length === undefined ? { ...upload, length } : upload, fields, options);
  };
}

/** Handles HEAD and GET /resumable-uploads/{upload_id}. */
export function readResumable(options: ResumableOptions): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const fileKey = fileKeyOf(ctx);
    await options.appends.stop(nameOf(caller, fileKey));
    setState(ctx, await options.control.takeResumableUpload(ctx, { caller, fileKey }));
    ctx.status = 204;
  };
}

/** Handles DELETE /resumable-uploads/{upload_id}: gives an unfinished upload up, with what is stored of it. */
export function cancelResumable(options: ResumableOptions): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const fileKey = fileKeyOf(ctx);
    await options.appends.stop(nameOf(caller, fileKey));
    const upload = await options.control.takeResumableUpload(ctx, { caller, fileKey });
    if (upload.url !== undefined)
      throw new ApiError('invalid_input', 'The upload is complete: delete the file by its key.');
    await options.control.abortUpload(ctx, { fileKey, accountId: upload.accountId });
    ctx.set('Cache-Control', 'no-store');
    ctx.status = 204;
  };
}

/** Refuses a body that cannot be the end of the file, before any of it is stored. */
function requireFitting({ length, maxBytes }: ResumableUpload, fields: UploadFields): void {
  if (fields.length === undefined) return;
  if (length !== undefined && Number(length) !== fields.length)
    throw new ApiError(
      'invalid_input',
      `With this request the file has ${fields.length} bytes; ${length} were stated before.`,
    );
  if (fields.length > Number(maxBytes)) throw tooLarge(Number(maxBytes));
}

/** The key is checked before a fault is reported, and refused calls count as calls. */
async function checked<Result>(
  ctx: GatewayContext,
  caller: Caller,
  { control }: ResumableOptions,
  check: () => Result,
): Promise<Result> {
  try {
    return check();
  } catch (error) {
    await control.authorize(ctx, { caller });
    throw error;
  }
}

/** Answers again what completed the upload, to a client that did not get the answer. */
function repeat(
  ctx: GatewayContext,
  upload: ResumableUpload,
  { complete, contentLength }: UploadFields,
): void {
  if (!complete || contentLength !== 0) {
    ctx.set('Upload-Complete', '?0');
    throw new ApiError('invalid_input', 'The upload is complete: nothing can be added.');
  }
  answerWithFile(ctx, upload, upload.url as string);
}

function answerWithFile(ctx: GatewayContext, { fileKey }: ResumableUpload, url: string): void {
  ctx.remove('Location');
  ctx.set('Upload-Complete', '?1');
  ctx.set('Cache-Control', 'no-store');
  ctx.status = 200;
  ctx.body = { file_key: fileKey, url };
}

/** Stores the body, and completes the upload when the body ends the file. */
async function goOn(
  ctx: GatewayContext,
  caller: Caller,
  upload: ResumableUpload,
  { complete }: UploadFields,
  options: ResumableOptions,
): Promise<void> {
  const { metrics } = options;
  metrics.uploadBegan();
  const leave = options.underWay.enter(upload.accountId);
  let [outcome, bytes]: [Parameters<typeof metrics.uploadEnded>[0], number] = ['failed', 0];
  try {
    if (!leave)
      throw new ApiError(
        'at_capacity',
        'This account has too many uploads under way. Retry when one of them has ended.',
      );
    const work = (stop: AbortSignal) => append(ctx, upload, options, stop);
    const { offset, failure } = await options.appends.run(nameOf(caller, upload.fileKey), work);
    bytes = offset - Number(upload.storedBytes);
    setState(ctx, upload, offset);
    // A body that came too slowly can be continued, as after a break; an answer would say that it cannot.
    if (failure instanceof ApiError)
      throw new ClientGoneError('the body came too slowly', { cause: failure });
    if (failure) throw failure;
    if (complete) {
      if (upload.length !== undefined && Number(upload.length) !== offset)
        throw new SpoiltUploadError(
          new ApiError(
            'invalid_input',
            `The file ends at ${offset} bytes, not at the ${upload.length} that were stated.`,
          ),
        );
      answerWithFile(ctx, upload, await join(ctx, upload, offset, options));
    } else {
      ctx.status = 204;
    }
    outcome = 'stored';
  } catch (error) {
    if (!(error instanceof SpoiltUploadError)) {
      // The offset is another request's now.
      if (error instanceof StatusError) ctx.remove('Upload-Offset');
      const refused =
        error instanceof ClientGoneError || (error instanceof ApiError && error.httpStatus < 500);
      if (refused) outcome = 'refused';
      throw error;
    }
    outcome = 'refused';
    await giveUp(ctx, upload, options);
    // The answer is about the file, and no more of it is wanted.
    ctx.remove('Location');
    ctx.set('Upload-Complete', '?1');
    throw error.refusal;
  } finally {
    leave?.();
    metrics.uploadEnded(outcome, outcome === 'stored' ? bytes : 0);
  }
}

async function giveUp(
  ctx: GatewayContext,
  { fileKey, accountId }: ResumableUpload,
  options: ResumableOptions,
) {
  try {
    await options.control.abortUpload(ctx, { fileKey, accountId });
  } catch (error) {
    options.clientLog.warn(
      'give up a resumable upload',
      { requestId: ctx.state.requestId, reason: describeError(error) },
      'cannot give up a resumable upload, the sweep will',
    );
  }
}
