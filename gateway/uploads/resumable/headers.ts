import { ApiError } from '@semblance/common/errors';
import type { ResumableUpload } from '@semblance/proto/semblance/control/v1/control';
import type { GatewayContext } from '../../http/context.ts';

/**
 * Header fields of resumable uploads (draft-ietf-httpbis-resumable-upload-11), which are structured fields (RFC 9651).
 * A value of another form counts as absent, as the draft says.
 */

/** Version of the draft's wire format. */
const INTEROP_VERSION = 8;
/** Type of the body of a request that continues an upload. */
export const PARTIAL_UPLOAD = 'application/partial-upload';

/** Parameters after an item mean nothing here. */
const INTEGER = /^(\d{1,15})\s*(;.*)?$/;
const BOOLEAN = /^\?([01])\s*(;.*)?$/;

function integer(ctx: GatewayContext, name: string): number | undefined {
  const found = INTEGER.exec(String(ctx.headers[name] ?? '').trim())?.[1];
  return found === undefined ? undefined : Number(found);
}

/** What a request says of its upload. */
export interface UploadFields {
  /** Whether the body ends the file; undefined when the request does not say. */
  readonly complete: boolean | undefined;
  readonly offset: number | undefined;
  /** Bytes of the whole file, when that can be concluded. */
  readonly length: number | undefined;
  readonly contentLength: number | undefined;
}

/** @throws ApiError invalid_input when two fields state different lengths */
export function uploadFields(ctx: GatewayContext, offset = integer(ctx, 'upload-offset')): UploadFields {
  const boolean = BOOLEAN.exec(String(ctx.headers['upload-complete'] ?? '').trim())?.[1];
  const complete = boolean === undefined ? undefined : boolean === '1';
  const sent = ctx.headers['content-length'];
  const contentLength = sent === undefined ? undefined : Number(sent);
  const stated = integer(ctx, 'upload-length');
  const bySize =
    complete && contentLength !== undefined && offset !== undefined ? offset + contentLength : undefined;
  if (stated !== undefined && bySize !== undefined && stated !== bySize)
    throw new ApiError(
      'invalid_input',
      `Upload-Length says ${stated} bytes; with this request the file has ${bySize}.`,
    );
  return { complete, offset, length: stated ?? bySize, contentLength };
}

/** @param limits `max-age` only for an upload that there is */
export function uploadLimit(maxBytes: number, maxAgeSeconds?: number): string {
  return `max-size=${maxBytes}${maxAgeSeconds === undefined ? '' : `, max-age=${maxAgeSeconds}`}`;
}

/** Sets the fields that tell the state of an upload. */
export function setState(
  ctx: GatewayContext,
  upload: ResumableUpload,
  offset = Number(upload.storedBytes),
): void {
  ctx.set('Upload-Offset', String(offset));
  ctx.set('Upload-Complete', upload.url === undefined ? '?0' : '?1');
  if (upload.length !== undefined) ctx.set('Upload-Length', String(upload.length));
  ctx.set('Upload-Limit', uploadLimit(Number(upload.maxBytes), Number(upload.expiresInSeconds)));
  ctx.set('Cache-Control', 'no-store');
}

/** Sends an interim response, to a client that speaks this version of the draft. */
export function inform(ctx: GatewayContext, headers: Readonly<Record<string, string>>): void {
  if (integer(ctx, 'upload-draft-interop-version') !== INTEROP_VERSION) return;
  if (ctx.headerSent || ctx.res.destroyed) return;
  ctx.res.writeInformation(104, { ...headers, 'Upload-Draft-Interop-Version': String(INTEROP_VERSION) });
}
