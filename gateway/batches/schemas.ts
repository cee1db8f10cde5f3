import { BATCH_ID, MAX_ITEMS } from '@semblance/common/batch-rules';
import { z } from 'zod';
import { callbackUrl, metadata, optional } from '../jobs/fields.ts';
import { jobSchema } from '../jobs/job-schema.ts';
import { JOB_CAPABILITIES } from '../jobs/submit-schemas.ts';
import { isoTime, usd } from '../openapi/parts.ts';

const item = z
  .looseObject(
    {
      capability: z
        .enum(JOB_CAPABILITIES, {
          error: ({ input }) =>
            input === undefined ? 'is required' : `must be one of ${JOB_CAPABILITIES.join(', ')}`,
        })
        .meta({ description: 'The capability, as the path segment of its submit.' }),
    },
    'must be a JSON object',
  )
  .meta({
    id: 'BatchItem',
    description: 'A job: its capability, and beside it the fields of the submit of that capability.',
  });

const items = z
  .array(item, 'must be a list')
  .min(1, 'must have at least one item')
  .max(MAX_ITEMS, `must have at most ${MAX_ITEMS.toLocaleString('en')} items`)
  .meta({ description: `The jobs, 1 to ${MAX_ITEMS.toLocaleString('en')}.` });

export const batchBody = z
  .object(
    {
      items,
      callback_url: optional(callbackUrl).meta({
        description:
          'Where the batch is POSTed when its last job has ended, by the rules of the `callback_url` of a job. An item may have one of its own. Left out: nobody is called.',
      }),
      metadata: optional(metadata),
    },
    'The body must be a JSON object',
  )
  .meta({ id: 'BatchSubmit' });

export const estimateBody = z
  .object({ items }, 'The body must be a JSON object')
  .meta({ id: 'BatchEstimateRequest' });

export const batchPath = z.object({
  batch_id: z.string().meta({ pattern: BATCH_ID.source, description: 'Id of the batch.' }),
});

const count = (what: string) =>
  z
    .int()
    .min(0)
    .max(MAX_ITEMS)
    .meta({ description: `Number of jobs that ${what}.` });

const countsSchema = z
  .object({
    queued: count('wait for an agent'),
    processing: count('an agent works on'),
    succeeded: count('succeeded'),
    failed: count('failed or were cancelled'),
  })
  .meta({ id: 'BatchCounts' });

export const batchSchema = z
  .object({
    id: z.string().meta({ description: 'Id of the batch.', pattern: BATCH_ID.source }),
    status: z
      .enum(['processing', 'finished'])
      .meta({ description: '`processing`: a job has not ended. `finished`: all have, for good.' }),
    jobs: z.int().min(1).max(MAX_ITEMS).meta({ description: 'Number of its jobs.' }),
    counts: countsSchema.meta({ description: 'Its jobs by status.' }),
    hold_usd: usd('What was held for its jobs when it was taken.'),
    charged_usd: usd('What its ended jobs cost so far.'),
    metadata: z
      .record(z.string(), z.string())
      .nullable()
      .meta({ description: 'As the submit gave it; null when it gave none.' }),
    created_at: isoTime('When it was taken.'),
    finished_at: isoTime('When its last job ended; null until then.').nullable(),
  })
  .meta({ id: 'Batch' });

export const EXAMPLE_BATCH = {
  id: 'bat-01k9x3v7m2q8r5t1w4y6z0abcd',
  status: 'processing',
  jobs: 3,
  counts: { queued: 1, processing: 1, succeeded: 1, failed: 0 },
  hold_usd: 0.24,
  charged_usd: 0.04,
  metadata: null,
  created_at: '2026-01-31T09:30:00.123Z',
  finished_at: null,
};

export const batchJobSchema = jobSchema
  .extend({
    index: z
      .int()
      .min(0)
      .max(MAX_ITEMS - 1)
      .meta({ description: 'Place among the items: the number of those before it.' }),
    capability: z.enum(JOB_CAPABILITIES).meta({ description: 'The capability, as its path segment.' }),
  })
  .meta({ id: 'BatchJob' });
