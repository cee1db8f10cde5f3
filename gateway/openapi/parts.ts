import { API_ERROR_CODES } from '@semblance/common/errors';
import { z } from 'zod';

/** Schemas that several operations share. */

/** An amount of money. @param what one sentence without its unit */
export function usd(what: string) {
  return z
    .number()
    .min(0)
    .meta({ description: `${what} In US dollars, to the millionth.` });
}

/** An amount of money that may be below zero. */
export function signedUsd(what: string) {
  return z.number().meta({ description: `${what} In US dollars, to the millionth; may be below zero.` });
}

/** A number of things. @param of what is counted, such as `Calls that ended.` */
export function count(of: string, least = 0) {
  return z
    .int()
    .min(least)
    .meta({ description: `Number of ${of}` });
}

/** A moment in answers. */
export function isoTime(what: string) {
  return z.string().meta({ format: 'date-time', description: `${what} ISO 8601, UTC.` });
}

export const errorEnvelope = z
  .object({
    error: z
      .object({
        code: z.enum(API_ERROR_CODES).meta({ description: 'What is wrong. Stable: branch on it.' }),
        message: z.string().meta({ description: 'What is wrong, in words for people; may change.' }),
      })
      .meta({ id: 'ErrorDetail' })
      .meta({ description: 'What is wrong.' }),
  })
  .meta({ id: 'ErrorEnvelope', description: 'The shape of every error.' });

interface HeaderPart {
  readonly description: string;
  readonly schema: Record<string, unknown>;
}

/** Response headers by name. */
export const RESPONSE_HEADERS: Readonly<Record<string, HeaderPart>> = {
  'Request-Id': {
    description: 'Id of this request: the one the client sent, or a new one. Name it when you ask for help.',
    schema: { type: 'string', pattern: '^[A-Za-z0-9._-]{1,128}$' },
  },
  'RateLimit-Limit': {
    description: 'Requests a minute that the key may send.',
    schema: { type: 'integer', minimum: 0 },
  },
  'RateLimit-Remaining': {
    description: 'Requests left in the present window.',
    schema: { type: 'integer', minimum: 0 },
  },
  'RateLimit-Reset': {
    description: 'Seconds until the window ends.',
    schema: { type: 'integer', minimum: 0 },
  },
  'Retry-After': {
    description: 'Seconds to wait before another try.',
    schema: { type: 'integer', minimum: 0 },
  },
  'WWW-Authenticate': { description: 'How one authenticates.', schema: { type: 'string' } },
  'Idempotent-Replayed': {
    description: 'There, and true, when this answers a repeat of an earlier submit.',
    schema: { type: 'string', enum: ['true'] },
  },
  Location: {
    description: 'Address of the upload, for the requests that continue it.',
    schema: { type: 'string', format: 'uri-reference' },
  },
  'Upload-Offset': {
    description: 'Bytes of the file that are stored; the upload goes on here.',
    schema: { type: 'integer', minimum: 0 },
  },
  'Upload-Complete': {
    description: '`?1` when this answers for the whole file, `?0` when the upload goes on.',
    schema: { type: 'string', pattern: '^\\?[01]$' },
  },
  'Upload-Length': {
    description: 'Bytes of the whole file, once they were stated.',
    schema: { type: 'integer', minimum: 0 },
  },
  'Upload-Limit': {
    description:
      '`max-size`: most bytes of the file; `max-age`: seconds for which the upload is kept from now on.',
    schema: { type: 'string' },
  },
  'Cache-Control': {
    description: 'Whether and how long the answer may be kept.',
    schema: { type: 'string' },
  },
  'Content-Range': { description: 'Which bytes of the file these are.', schema: { type: 'string' } },
  ETag: { description: 'Version of the file.', schema: { type: 'string' } },
  'Last-Modified': { description: 'When the file was stored.', schema: { type: 'string' } },
  'Accept-Ranges': { description: 'Ranges are served.', schema: { type: 'string', enum: ['bytes'] } },
};

export const RATE_LIMIT_HEADERS = ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'] as const;

/** The meaning of each error code for a caller, as a sentence for the document. */
export const ERROR_MEANINGS: Readonly<Record<(typeof API_ERROR_CODES)[number], string>> = {
  unauthorized:
    'The key is missing, unknown, revoked or expired, or not for this address; or the link is not valid any more.',
  forbidden: 'The key lacks the scope that this call needs; the message names it.',
  insufficient_balance: 'The balance does not cover the hold.',
  invalid_input: 'A field failed validation; the message names every faulty one.',
  unsupported_format: 'The file type is not accepted.',
  input_too_large: 'Over the size limit for its type.',
  capability_unavailable: 'The capability is switched off or has no engine.',
  not_found: 'There is no such thing, or it belongs to another account.',
  rate_limited: 'Too many requests in this window: slow down.',
  at_capacity: 'Too much is under way: retry shortly.',
  capacity_unavailable: 'No capacity for a live session right now.',
  capacity_warming: 'Voice capacity is starting up: retry in about a minute.',
  internal_error: 'The service failed. Nothing is billed; retry.',
};
