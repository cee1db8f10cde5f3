import { MAX_ITEMS } from '@semblance/common/batch-rules';
import { z } from 'zod';
import { capSchemas } from '../jobs/estimate.ts';
import { EXAMPLE_JOB } from '../jobs/job-schema.ts';
import { submitHeaders } from '../jobs/submit.ts';
import type { Operation } from '../openapi/operation.ts';
import { usd } from '../openapi/parts.ts';
import { limitUpTo } from '../usage/query.ts';
import { batchBody, batchJobSchema, batchPath, batchSchema, EXAMPLE_BATCH, estimateBody } from './schemas.ts';

const once = () => z.string('must be given once');

export const batchesQuery = z.object({
  limit: limitUpTo(200, 50),
  cursor: once()
    .regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be the next_cursor of an earlier answer')
    .optional()
    .meta({
      description:
        '`next_cursor` of an earlier answer: the batches after its last one. Left out: the newest.',
    }),
});

export const batchJobsQuery = z.object({
  limit: limitUpTo(200, 50),
  from_index: once()
    .refine((text) => /^\d{1,3}$/.test(text), `must be a whole number from 0 to ${MAX_ITEMS - 1}`)
    .transform(Number)
    .default(0)
    .meta({
      description:
        'Number of items before the first one that is answered: `next_index` of an earlier answer. Left out: 0.',
      default: 0,
      type: 'integer',
      minimum: 0,
      maximum: MAX_ITEMS - 1,
    }),
});

const common = { tag: 'Jobs', key: 'required' } as const;
const EXAMPLE_ITEMS = [
  {
    capability: 'face-swap-image',
    image_key: 'api/01k9x3v7m2q8r5t1w4y6z0imag',
    face_key: 'api/01k9x3v7m2q8r5t1w4y6z0imag',
  },
];

export const submitBatchOperation: Operation = {
  ...common,
  id: 'submitBatch',
  summary: 'Submit a batch of jobs, all or none',
  description: `Submits 1 to ${MAX_ITEMS.toLocaleString('en')} jobs in one step: each is checked, and what all of them need is held, or nothing is and the message names the item. From then on they are jobs like any other: they wait in the same queue, count as jobs in flight, and cost and fail one by one.`,
  headers: submitHeaders,
  body: {
    type: 'application/json',
    schema: batchBody,
    example: { items: EXAMPLE_ITEMS, callback_url: 'https://example.com/hooks/batches' },
  },
  callback: '{$request.body#/callback_url}',
  callbackOf: 'batch',
  answers: [
    {
      status: 200,
      description: 'The batch is taken.',
      schema: batchSchema,
      headers: ['Idempotent-Replayed'],
      example: { ...EXAMPLE_BATCH, counts: { queued: 3, processing: 0, succeeded: 0, failed: 0 } },
    },
  ],
  errors: ['invalid_input', 'insufficient_balance', 'capability_unavailable', 'at_capacity'],
};

export const estimateBatchOperation: Operation = {
  ...common,
  id: 'estimateBatch',
  summary: 'Estimate a batch',
  description: 'Returns what a batch of these items would hold at this moment. Holds and creates nothing.',
  body: { type: 'application/json', schema: estimateBody, example: { items: EXAMPLE_ITEMS } },
  answers: [
    {
      status: 200,
      description: 'The estimate.',
      schema: z
        .object({
          hold_usd: usd('What would be held for all items.'),
          balance_sufficient: z.boolean().meta({ description: 'Whether the balance covers it now.' }),
          ...capSchemas,
          items: z
            .array(
              z
                .object({ hold_usd: usd('What would be held for the item.') })
                .meta({ id: 'BatchItemEstimate' }),
            )
            .meta({ description: 'In the order of the items.' }),
        })
        .meta({ id: 'BatchEstimate' }),
      example: {
        hold_usd: 0.08,
        balance_sufficient: true,
        cap_sufficient: true,
        items: [{ hold_usd: 0.08 }],
      },
    },
  ],
  errors: ['invalid_input', 'capability_unavailable'],
};

export const listBatchesOperation: Operation = {
  ...common,
  id: 'listBatches',
  summary: 'List batches, the newest first',
  description: 'The batches of the account.',
  query: batchesQuery,
  answers: [
    {
      status: 200,
      description: 'A page of batches.',
      schema: z
        .object({
          batches: z.array(batchSchema).meta({ description: 'The newest first.' }),
          next_cursor: z
            .string()
            .nullable()
            .meta({ description: 'For the next page. Null: there are no more.' }),
        })
        .meta({ id: 'BatchPage' }),
      example: { batches: [EXAMPLE_BATCH], next_cursor: null },
    },
  ],
  errors: ['invalid_input'],
};

export const readBatchOperation: Operation = {
  ...common,
  id: 'readBatch',
  summary: 'Read a batch',
  description: 'The batch as it stands. `GET /batches/{batch_id}/jobs` has its jobs.',
  path: batchPath,
  answers: [{ status: 200, description: 'The batch.', schema: batchSchema, example: EXAMPLE_BATCH }],
  errors: ['not_found'],
};

export const listBatchJobsOperation: Operation = {
  ...common,
  id: 'listBatchJobs',
  summary: 'List the jobs of a batch, in the order of its items',
  description: 'Each job with the record that `GET /jobs/{job_id}` answers, its place and its capability.',
  path: batchPath,
  query: batchJobsQuery,
  answers: [
    {
      status: 200,
      description: 'A page of jobs.',
      schema: z
        .object({
          jobs: z.array(batchJobSchema).meta({ description: 'In the order of the items.' }),
          next_index: z
            .int()
            .min(1)
            .max(MAX_ITEMS - 1)
            .nullable()
            .meta({ description: 'Number of items before the next page. Null: there are no more.' }),
        })
        .meta({ id: 'BatchJobPage' }),
      example: { jobs: [{ ...EXAMPLE_JOB, index: 0, capability: 'face-swap-image' }], next_index: null },
    },
  ],
  errors: ['invalid_input', 'not_found'],
};

export const cancelBatchOperation: Operation = {
  ...common,
  id: 'cancelBatch',
  summary: 'Cancel the rest of a batch',
  description:
    'Cancels the jobs that have not ended, all in one step, each as `POST /jobs/{job_id}/cancel` does. Those that have ended stay as they are. Repeating the call changes nothing.',
  path: batchPath,
  answers: [
    { status: 200, description: 'The batch as it stands.', schema: batchSchema, example: EXAMPLE_BATCH },
  ],
  errors: ['not_found'],
};
