import { createClientLog } from '@semblance/common/client-log';
import { ApiError, describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { inSpan } from '@semblance/common/tracing/tracing';
import type {
  GetJobRequest,
  GetJobResult,
  SubmitJobRequest,
  SubmitJobResponse,
  SubmitJobResult,
} from '@semblance/proto/semblance/control/v1/control';
import type { Admission, Gate } from '../accounts/gate.ts';
import { isJobId } from '../jobs/job-row.ts';
import type { JobView } from '../jobs/job-view.ts';
import type { Submission } from '../jobs/submission.ts';
import type { Submitted } from '../jobs/submit.ts';
import { refused } from './message-streams.ts';

/** Reads that came together. One that is refused takes no other with it. */
export function readTogether(gate: Gate, view: JobView) {
  return async (requests: readonly GetJobRequest[]): Promise<GetJobResult[]> => {
    const asks = requests.map(({ caller, jobId }) => ({ caller, jobId: isJobId(jobId) ? jobId : undefined }));
    const verdicts = await gate.admitAll(asks);
    return Promise.all(
      verdicts.map(async ({ admission, refusal, rateLimit }) => {
        if (refusal) return refused(refusal, rateLimit);
        const { job, linkSeconds, keyId } = admission;
        if (!job) return refused(new ApiError('not_found', 'There is no such job.'), rateLimit);
        return { outcome: { $case: 'job', value: await view.show(job, linkSeconds, keyId) }, rateLimit };
      }),
    );
  };
}

export interface SubmitTogetherOptions {
  readonly gate: Gate;
  readonly submit: (submission: Submission) => Promise<Submitted>;
  readonly logger: Logger;
}

/** Attributes of a submit's span, as if the submit had come in a call of its own. */
const SPAN = {
  'rpc.system': 'grpc',
  'rpc.service': 'semblance.control.v1.ControlService',
  'rpc.method': 'SubmitJob',
};

/** Submits that came together, each with an end of its own. */
export function submitTogether({ gate, submit, logger }: SubmitTogetherOptions) {
  const clientLog = createClientLog(logger);
  return async (requests: readonly SubmitJobRequest[]): Promise<SubmitJobResult[]> => {
    const startedAt = new Date();
    const verdicts = await gate.admitAll(requests.map(({ caller }) => ({ caller })));
    return Promise.all(
      verdicts.map(async ({ admission, refusal, rateLimit }, i) => {
        if (refusal) return refused(refusal, rateLimit);
        const request = requests[i] as SubmitJobRequest;
        const span = { kind: 'server', parent: request.traceparent, attributes: SPAN, startedAt } as const;
        try {
          const submitted = await inSpan(`${SPAN['rpc.service']}/SubmitJob`, span, (traceparent) =>
            submit({ ...submissionOf(request, admission), traceparent }),
          );
          return { outcome: { $case: 'submitted', value: answerTo(submitted) }, rateLimit };
        } catch (error) {
          const refusal = refused(error, rateLimit);
          if (refusal.outcome.value.code === 'internal_error')
            clientLog.error(
              'SubmitJobs',
              { err: error, requestId: request.requestId, method: 'SubmitJobs' },
              `cannot handle a submit: ${describeError(error)}`,
            );
          return refusal;
        }
      }),
    );
  };
}

export function submissionOf(
  request: SubmitJobRequest,
  { accountId, keyId }: Pick<Admission, 'accountId' | 'keyId'>,
): Submission {
  const { capability, inputs, parameters, engineOptions, callbackUrl, idempotencyKey } = request;
  return {
    ...{ accountId, keyId, capability, inputs, parameters, engineOptions, callbackUrl, idempotencyKey },
    metadata: request.metadata?.entries,
    expiresInSeconds: secondsIn(request.expiresInSeconds),
  };
}

/** Returns an int64 as a number; one beyond all exact numbers is refused like any other that is too large. */
export function secondsIn(seconds: bigint | undefined): number | undefined {
  return seconds === undefined ? undefined : Number(seconds);
}

export function answerTo({ jobId, replayed }: Submitted): SubmitJobResponse {
  return { id: jobId, status: 'queued', statusUrl: `/api/v1/jobs/${jobId}`, replayed };
}
