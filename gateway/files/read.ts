import { ApiError } from '@semblance/common/errors';
import type { DirectoryStore, OpenObject } from '@semblance/objects/directory-store';
import { DamagedObjectError } from '@semblance/objects/footer';
import type { LinkGrant } from '@semblance/objects/links';
import type { ObjectState } from '@semblance/objects/object-state';
import { ObjectNotFoundError } from '@semblance/objects/store';
import type { GatewayContext, Handler } from '../http/context.ts';
import { StatusError } from '../http/envelope.ts';
import { extensionOf } from '../uploads/media-types.ts';
import type { LinkKeys } from './link-keys.ts';
import { requireGrant, sayObject } from './links.ts';
import { type ByteRange, ifRangeHolds, isNotModified, parseRange, type Validators } from './range.ts';
import { createSendCount, type SendLimits, sendAtPace } from './send.ts';

export interface ReadFileOptions {
  readonly store: DirectoryStore;
  /** Time after which a client that reads nothing is cut off, in ms, so that it cannot hold files open for ever. */
  readonly readIdleMs: number;
  readonly sendLimits: SendLimits;
  readonly linkKeys: LinkKeys;
}

/** Handles GET and HEAD of a signed link of the directory store, with single ranges and validators. */
export function readFile({ store, readIdleMs, sendLimits, linkKeys }: ReadFileOptions): Handler {
  const sending = createSendCount(sendLimits);
  return async (ctx) => {
    const grant = requireGrant(ctx, 'GET', store);
    await linkKeys.require(ctx, grant.keyId);
    const object = await openObject(ctx, store, grant.key);
    let sent: (() => void) | undefined;
    try {
      const validators = { etag: `"${object.version}"`, lastModified: object.storedAt };
      const notModified = isNotModified(ctx.headers, validators);
      // Before the headers, because a refused range must not be cached or saved as the file.
      const range = notModified ? undefined : rangeOf(ctx, object, validators);
      const length = range ? range.end - range.start + 1 : object.sizeBytes;
      const hasBody = !notModified && ctx.method !== 'HEAD' && length > 0;
      if (hasBody) sent = sending.begin(ctx.url);
      setHeaders(ctx, object, grant, validators);
      if (notModified) {
        ctx.status = 304;
        return;
      }
      ctx.status = range ? 206 : 200;
      if (range) ctx.set('Content-Range', `bytes ${range.start}-${range.end}/${object.sizeBytes}`);
      // Set directly, because Koa's setter would add a charset.
      ctx.set('Content-Type', object.contentType);
      ctx.set('Content-Length', String(length));
      // Koa must not answer from here on: it would not end a response whose source fails half-way.
      ctx.respond = false;
      if (hasBody) await sendAtPace(object.createReadStream(range), ctx.res, readIdleMs);
      else ctx.res.end();
    } finally {
      sent?.();
      await object.close();
    }
  };
}

/**
 * Opens the object. For HEAD it sets the header with the object's state, which only services of the installation
 * need.
 */
async function openObject(ctx: GatewayContext, store: DirectoryStore, key: string): Promise<OpenObject> {
  const say = (state: ObjectState) => ctx.method === 'HEAD' && sayObject(ctx, state);
  try {
    const object = await store.open(key);
    say('stored');
    return object;
  } catch (error) {
    if (error instanceof DamagedObjectError) say('damaged');
    if (!(error instanceof ObjectNotFoundError)) throw error;
    say('absent');
    throw new ApiError('not_found', 'This file is no longer stored.', { cause: error });
  }
}

function setHeaders(ctx: GatewayContext, object: OpenObject, grant: LinkGrant, validators: Validators): void {
  const secondsLeft = Math.max(0, grant.expires - Math.ceil(Date.now() / 1000));
  const extension = extensionOf(object.contentType);
  const name = grant.filename ?? grant.key.slice(grant.key.lastIndexOf('/') + 1);
  const filename = extension && !name.endsWith(`.${extension}`) ? `${name}.${extension}` : name;
  ctx.set({
    'Accept-Ranges': 'bytes',
    ETag: validators.etag,
    'Last-Modified': validators.lastModified.toUTCString(),
    'Cache-Control': `private, max-age=${secondsLeft}`,
    'Content-Disposition': `inline; filename="${filename}"`,
    'Content-Security-Policy': "default-src 'none'; sandbox",
    'Referrer-Policy': 'no-referrer',
  });
}

function rangeOf(ctx: GatewayContext, object: OpenObject, validators: Validators): ByteRange | undefined {
  const { range: header, 'if-range': ifRange } = ctx.headers;
  // RFC 9110 defines Range for GET only.
  if (ctx.method !== 'GET' || !ifRangeHolds(headerText(ifRange), validators)) return undefined;
  const range = parseRange(header, object.sizeBytes);
  if (range !== 'unsatisfiable') return range;
  ctx.set('Content-Range', `bytes */${object.sizeBytes}`);
  throw new StatusError(416, 'invalid_input', `The range lies outside the file's ${object.sizeBytes} bytes.`);
}

function headerText(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}
