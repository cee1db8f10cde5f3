import { ApiError } from '@semblance/common/errors';
import { isObjectKey } from '@semblance/common/object-key';
import type { ReadReceiptKeysResponse } from '@semblance/proto/semblance/control/v1/control';
import { z } from 'zod';
import { requireCaller } from '../auth/bearer.ts';
import { checked } from '../auth/checked.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { GatewayContext, Handler } from '../http/context.ts';
import { queryOf } from '../http/query.ts';
import { isJobIdShaped } from '../jobs/job-schema.ts';
import type { Operation } from '../openapi/operation.ts';
import { isoTime } from '../openapi/parts.ts';
import { limitUpTo, parseQuery } from '../usage/query.ts';

const once = () => z.string('must be given once');

const receiptsQuery = z.object({
  job_id: once().refine(isJobIdShaped, 'must be the id of a job').optional().meta({
    description:
      'Only files of this job: its output, the thumbnail of it, and the uploads that it was made from. Left out: of all jobs.',
    pattern: '^[A-Za-z0-9_-]{1,64}$',
  }),
  file_key: once()
    .refine((key) => key.startsWith('api/') && isObjectKey(key), 'must be a file_key')
    .optional()
    .meta({
      description: 'Only this upload. Left out: all files.',
      pattern: '^api(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$',
      maxLength: 512,
    }),
  limit: limitUpTo(200, 50),
  cursor: once()
    .regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be the next_cursor of an earlier answer')
    .optional()
    .meta({
      description:
        '`next_cursor` of an earlier answer: the receipts after its last one. Left out: the newest.',
    }),
});

/** Handles GET /receipts. */
export function listReceipts({ control }: { readonly control: ControlPlane }): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const request = await checked(ctx, control, () => {
      const { job_id: jobId, file_key: fileKey, ...page } = parseQuery(receiptsQuery, queryOf(ctx));
      if (jobId !== undefined && fileKey !== undefined)
        throw new ApiError('invalid_input', 'job_id and file_key exclude each other.');
      return { caller, jobId, fileKey, ...page };
    });
    const { receipts, pending, nextCursor } = await control.listReceipts(ctx, request);
    ctx.set('Cache-Control', 'no-store');
    ctx.body = {
      receipts: receipts.map(({ jws, statementJson }) => ({ statement: JSON.parse(statementJson), jws })),
      pending,
      next_cursor: nextCursor ?? null,
    };
  };
}

export interface ReceiptKeysOptions {
  readonly control: ControlPlane;
  /** Time for which the keys are answered again without a question, in ms. */
  readonly keepMs: number;
}

/** Handles GET /receipts/keys. Everybody may ask, so one answer serves for a while. */
export function readReceiptKeys({ control, keepMs }: ReceiptKeysOptions): Handler {
  let kept: { readonly keys: Promise<ReadReceiptKeysResponse>; readonly until: number } | undefined;

  function keysFor(ctx: GatewayContext): Promise<ReadReceiptKeysResponse> {
    if (kept && performance.now() < kept.until) return kept.keys;
    const keys = control.readReceiptKeys(ctx, {});
    const asked = { keys, until: performance.now() + keepMs };
    kept = asked;
    keys.catch(() => {
      // The next request asks again.
      if (kept === asked) kept = undefined;
    });
    return keys;
  }

  return async (ctx) => {
    const { keysJson } = await keysFor(ctx);
    ctx.set('Cache-Control', 'no-store');
    ctx.body = JSON.parse(keysJson);
  };
}

const statementSchema = z
  .object({
    statement: z.literal('deleted').meta({ description: 'What the receipt states: the file is deleted.' }),
    kind: z.enum(['upload', 'output', 'preview', 'crop']).meta({
      description:
        'What the file was; a preview is the thumbnail of an output, a crop the picture of a face that an upload shows.',
    }),
    object_key: z.string().meta({ description: 'Key of the file; of an upload its `file_key`.' }),
    job_id: z.string().nullable().meta({ description: 'Job that made the file; null for an upload.' }),
    size_bytes: z.int().min(0).meta({ description: 'Number of bytes of the file.' }),
    sha256: z
      .string()
      .nullable()
      .meta({ description: 'SHA-256 of the file, 64 hexadecimal digits; null where it is not known.' }),
    requested_by: z.enum(['owner', 'admin', 'retention']).meta({
      description:
        '`owner`: a key of the account. `admin`: the owner of the service. `retention`: its time was over.',
    }),
    removed_at: isoTime('From then on nobody could use the file.'),
    deleted_at: isoTime('When the object store confirmed that the file is gone.'),
    account_id: z.string().meta({ description: 'Account that the file belonged to.' }),
    service: z.string().meta({ description: 'Id of the installation that signs.' }),
  })
  .meta({ id: 'DeletionStatement' });

const pageSchema = z
  .object({
    receipts: z
      .array(
        z
          .object({
            statement: statementSchema.meta({ description: 'What is signed.' }),
            jws: z.string().meta({
              description:
                'JSON Web Signature (RFC 7515, compact, EdDSA) over the statement by a key of `GET /receipts/keys`.',
            }),
          })
          .meta({ id: 'DeletionReceipt' }),
      )
      .meta({ description: 'The newest first.' }),
    pending: z.int().min(0).meta({
      description:
        'Number of files among those asked for that nobody can use any more, and that the object store has not confirmed to be gone yet.',
    }),
    next_cursor: z.string().nullable().meta({ description: 'For the next page. Null: there are no more.' }),
  })
  .meta({ id: 'DeletionReceipts' });

export const listReceiptsOperation: Operation = {
  id: 'listReceipts',
  tag: 'Account',
  summary: 'List receipts of deleted files, the newest first',
  description:
    'One signed statement for each file that was deleted, by whatever cause. It is there when the object store has confirmed that the file is gone, and anybody who has the public keys can check it without the service.',
  key: 'required',
  query: receiptsQuery,
  answers: [
    {
      status: 200,
      description: 'A page of receipts.',
      schema: pageSchema,
      example: {
        receipts: [
          {
            statement: {
              statement: 'deleted',
              kind: 'upload',
              object_key: 'api/up-06e2tq7pzb1hyw1y8c2t7xk4d0',
              job_id: null,
              size_bytes: 421_337,
              sha256: 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
              requested_by: 'owner',
              removed_at: '2026-01-31T09:30:00.123Z',
              deleted_at: '2026-01-31T09:30:00.201Z',
              account_id: 'acct-01k9x3v7m2q8r5t1w4y6z0abcd',
              service: '0b4d2c0e-7d0a-4f3c-9a53-0d6a5a0f2c11',
            },
            jws: 'eyJhbGciOiJFZERTQSJ9.eyJzdGF0ZW1lbnQiOiJkZWxldGVkIn0.c2lnbmF0dXJl',
          },
        ],
        pending: 0,
        next_cursor: null,
      },
    },
  ],
  errors: ['invalid_input', 'not_found'],
};

const keySchema = z
  .object({
    kty: z.literal('OKP').meta({ description: 'Type of the key (RFC 8037).' }),
    crv: z.literal('Ed25519').meta({ description: 'Curve of the key (RFC 8037).' }),
    x: z.string().meta({ description: 'The public key, 32 bytes in base64url.' }),
    kid: z.string().meta({ description: 'Name of the key, which signatures carry.' }),
    use: z.literal('sig').meta({ description: 'What the key is for: signatures.' }),
    alg: z.literal('EdDSA').meta({ description: 'Algorithm of the signatures (RFC 8037).' }),
  })
  .meta({ id: 'ReceiptKey' });

export const readReceiptKeysOperation: Operation = {
  id: 'readReceiptKeys',
  tag: 'Account',
  summary: 'Read the public keys of receipts',
  description:
    'A JSON Web Key Set (RFC 7517). Keep a copy: with it receipts are checked without the service.',
  key: 'none',
  answers: [
    {
      status: 200,
      description: 'The keys, the newest first.',
      schema: z
        .object({
          keys: z.array(keySchema).meta({ description: 'The keys, the newest first.' }),
        })
        .meta({ id: 'ReceiptKeys' }),
      example: {
        keys: [
          {
            kty: 'OKP',
            crv: 'Ed25519',
            x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo',
            kid: 'kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k',
            use: 'sig',
            alg: 'EdDSA',
          },
        ],
      },
    },
  ],
  otherErrors: [{ status: 502, code: 'internal_error' }],
};
