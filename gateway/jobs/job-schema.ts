import { JOB_STATUSES } from '@semblance/events/jobs';
import { z } from 'zod';
import { usd } from '../openapi/parts.ts';

/** The job record as the API answers it; `common/job-record.ts` makes it. */
export const jobSchema = z
  .object({
    id: z.string(),
    status: z.enum(JOB_STATUSES),
    output_url: z.string().nullable().meta({
      format: 'uri',
      description: 'Signed, expiring link. Null until the job succeeds.',
    }),
    charged_usd: usd
      .nullable()
      .meta({ description: 'Null until billing has been reconciled. 0 for a failed job.' }),
    error: z
      .object({ code: z.string(), message: z.string() })
      .nullable()
      .meta({ description: 'Of a failed job; otherwise null.' }),
  })
  .meta({ id: 'Job' });

export const EXAMPLE_JOB = {
  id: 'job-01k9x3v7m2q8r5t1w4y6z0abcd',
  status: 'processing',
  output_url: null,
  charged_usd: null,
  error: null,
};

export const jobPath = z.object({
  job_id: z.string().min(1).meta({ description: 'As the submit answered it.' }),
});

/** Returns false for text that cannot be the id of a job, so that no lookup is needed. */
export function isJobIdShaped(text: string): boolean {
  return /^[A-Za-z0-9_-]{1,64}$/.test(text);
}
