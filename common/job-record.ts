import type { Job } from '@semblance/proto/semblance/control/v1/control';
import { microsToUsd } from './money.ts';

/** Job record of the API, with its fields in the order of serialisation. */
export interface JobRecord {
  readonly id: string;
  readonly status: string;
  readonly output_url: string | null;
  readonly charged_usd: number | null;
  readonly error: { readonly code: string; readonly message: string } | null;
}

/** Returns the record that both the job read and the `data` of a webhook serialise, so that the two are identical. */
export function jobRecord(job: Job): JobRecord {
  return {
    id: job.id,
    status: job.status,
    output_url: job.outputUrl ?? null,
    charged_usd: job.chargedMicros === undefined ? null : microsToUsd(job.chargedMicros),
    error: job.error ? { code: job.error.code, message: job.error.message } : null,
  };
}
