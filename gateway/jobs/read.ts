import { ApiError } from '#common/errors.ts';
import { jobRecord } from '#common/job-record.ts';
import { requireCaller } from '../auth/bearer.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { Handler } from '../http/context.ts';

const JOB_ID = /^[A-Za-z0-9_-]{1,64}$/;

/** GET /jobs/{job_id} */
export function readJob({ control }: { readonly control: ControlPlane }): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx.headers.authorization);
    const jobId = ctx.params.job_id as string;
    if (!JOB_ID.test(jobId)) {
      await control.authorize(ctx, { caller });
      throw new ApiError('not_found', 'There is no such job.');
    }
    const job = await control.getJob(ctx, { caller, jobId });
    ctx.set('Cache-Control', 'no-store');
    ctx.body = jobRecord(job);
  };
}
