import { ApiError } from '@semblance/common/errors';
import { jobRecord } from '@semblance/common/job-record';
import { z } from 'zod';
import type { CallerBeforeBody } from '../auth/known-keys.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { Handler } from '../http/context.ts';
import { hasBody, readJson } from '../http/json-body.ts';
import type { Operation } from '../openapi/operation.ts';
import { EXAMPLE_JOB, isJobIdShaped, jobPath, jobSchema } from './job-schema.ts';

export interface CancelOptions {
  readonly callerOf: CallerBeforeBody;
  readonly control: ControlPlane;
  /** Longest time for the body to arrive, in ms. */
  readonly bodyTimeoutMs: number;
}

const cancelBody = z.object({}, 'The body must be a JSON object, or left out').meta({ id: 'Cancel' });

/** Handles POST /jobs/{job_id}/cancel. */
export function cancelJob({ callerOf, control, bodyTimeoutMs }: CancelOptions): Handler {
  return async (ctx) => {
    const caller = await callerOf(ctx);
    const jobId = ctx.params.job_id as string;
    try {
      if (!isJobIdShaped(jobId)) throw new ApiError('not_found', 'There is no such job.');
      if (hasBody(ctx)) {
        const { error } = cancelBody.safeParse(await readJson(ctx, bodyTimeoutMs));
        if (error) throw new ApiError('invalid_input', `${error.issues[0]?.message}.`);
      }
    } catch (error) {
      // The key is checked before a fault is reported, and refused calls count as calls.
      if (error instanceof ApiError) await control.authorize(ctx, { caller });
      throw error;
    }
    const { job } = await control.cancelJob(ctx, { caller, jobId });
    if (!job) throw new ApiError('internal_error', 'The service failed. Try again.', { upstream: true });
    ctx.set('Cache-Control', 'no-store');
    ctx.body = jobRecord(job);
  };
}

export const cancelJobOperation: Operation = {
  id: 'cancelJob',
  tag: 'Jobs',
  summary: 'Cancel a job',
  description:
    'Stops the work. From the moment this is answered the job can end in one way only: `failed`, with the error `processing_failed`, charged 0. A job whose work is being stopped still reads `queued` or `processing`; it ends when its slot is free. Repeating the call, or cancelling a job that has ended, changes nothing and answers the job as it stands.',
  key: 'required',
  path: jobPath,
  body: { type: 'application/json', schema: cancelBody, optional: true, example: {} },
  answers: [{ status: 200, description: 'The job as it stands.', schema: jobSchema, example: EXAMPLE_JOB }],
  errors: ['invalid_input', 'not_found'],
};
