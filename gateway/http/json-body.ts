import { ApiError } from '@semblance/common/errors';
import type { Context } from 'koa';
import { koaBody } from 'koa-body';
import type { GatewayContext } from './context.ts';
import { askForBody, ClientGoneError } from './request-body.ts';

/** Largest body, in bytes. It fits the longest script with every character written as two \u escapes. */
const LIMIT_BYTES = 256 * 1024;
/** The same, of a batch. */
export const BATCH_BYTES = 2 * 1024 * 1024;

/**
 * JSON by any of its names (RFC 6839). Both the refusal and the parser use this list, because the parser's own is
 * shorter.
 */
const JSON_TYPES = ['application/json', 'application/*+json'];

const parserOf = (jsonLimit: number) =>
  koaBody({
    json: true,
    jsonTypes: JSON_TYPES,
    jsonStrict: false,
    jsonLimit,
    urlencoded: false,
    text: false,
    multipart: false,
  });
const parsers = new Map([LIMIT_BYTES, BATCH_BYTES].map((bytes) => [bytes, parserOf(bytes)]));

/**
 * Returns the JSON body of a request, of any JSON type.
 * @param timeoutMs longest time for all of it
 * @param limitBytes largest body
 * @throws ApiError `invalid_input` for any other type, malformed JSON, a body that is too large or too slow
 */
export async function readJson(
  ctx: GatewayContext,
  timeoutMs: number,
  limitBytes: typeof LIMIT_BYTES | typeof BATCH_BYTES = LIMIT_BYTES,
): Promise<unknown> {
  const parse = parsers.get(limitBytes) as ReturnType<typeof parserOf>;
  if (!ctx.is(JSON_TYPES))
    throw new ApiError(
      'invalid_input',
      'The body must be JSON, with the header "Content-Type: application/json".',
    );
  askForBody(ctx.req, ctx.res);
  let timer: NodeJS.Timeout | undefined;
  const tooSlow = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new ApiError('invalid_input', `The body did not arrive within ${timeoutMs / 1000} s.`)),
      timeoutMs,
    );
  });
  const parsing = parse(ctx as unknown as Context, async () => {});
  // It loses the race when the client is too slow, and rejects later.
  parsing.catch(() => {});
  try {
    await Promise.race([parsing, tooSlow]);
  } catch (error) {
    throw refusalFor(error, limitBytes);
  } finally {
    clearTimeout(timer);
  }
  return (ctx.request as unknown as { body: unknown }).body;
}

/** Returns whether a request has a body, for routes on which it is optional. */
export function hasBody({ req }: GatewayContext): boolean {
  return req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length'] ?? 0) > 0;
}

/** Converts the errors of raw-body, inflation and the JSON parser by their `type` and `status`. */
function refusalFor(error: unknown, limitBytes: number): Error {
  if (error instanceof ApiError) return error;
  const { type, status, code } = error as { type?: string; status?: number; code?: string };
  if (type === 'entity.too.large')
    return new ApiError('invalid_input', `The body must be at most ${limitBytes / 1024} KiB.`, {
      cause: error,
    });
  if (type === 'request.aborted' || code === 'ECONNRESET' || code === 'ECONNABORTED')
    return new ClientGoneError('the client went away', { cause: error });
  if (type === 'request.size.invalid')
    return new ApiError('invalid_input', 'The body is not as long as its Content-Length says.', {
      cause: error,
    });
  if (status === 415)
    return new ApiError('invalid_input', 'The Content-Encoding of the body is not supported.', {
      cause: error,
    });
  if (
    error instanceof SyntaxError ||
    status === 400 ||
    code?.startsWith('Z_') ||
    code?.startsWith('ERR__ERROR_FORMAT')
  )
    return new ApiError('invalid_input', 'The body is not valid JSON.');
  return error as Error;
}
