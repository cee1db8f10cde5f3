import { ApiError } from '@semblance/common/errors';
import { jobRecord } from '@semblance/common/job-record';
import { requireCaller } from '../auth/bearer.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { Handler } from '../http/context.ts';
import type { Operation } from '../openapi/operation.ts';
import { EXAMPLE_JOB, isJobIdShaped, jobPath, jobSchema } from './job-schema.ts';

/** Handles GET /jobs/{job_id}. */
export function readJob({ control }: { readonly control: ControlPlane }): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const jobId = ctx.params.job_id as string;
    if (!isJobIdShaped(jobId)) {
      await control.authorize(ctx, { caller });
      throw new ApiError('not_found', 'There is no such job.');
    }
    const job = await control.getJob(ctx, { caller, jobId });
    ctx.set('Cache-Control', 'no-store');
    ctx.body = jobRecord(job);
  };
}

export const readJobOperation: Operation = {
  id: 'getJob',
  tag: 'Jobs',
  summary: 'Read a job',
  description:
    'Poll until `status` is `succeeded` or `failed`. A job that is unknown or of another account is `not_found`.',
  key: 'required',
  path: jobPath,
  answers: [{ status: 200, description: 'The job.', schema: jobSchema, example: EXAMPLE_JOB }],
  errors: ['not_found'],
};
