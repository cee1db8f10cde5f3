import { Metadata } from '@grpc/grpc-js';
import { ApiError, describeError } from '#common/errors.ts';
import type { CallContext } from '#common/grpc/server.ts';
import type { Logger } from '#common/logging.ts';
import type {
  GetJobRequest,
  GetJobResponse,
  GetJobResult,
  GetJobsRequest,
  GetJobsResponse,
} from '#proto/semblance/control/v1/control.ts';
import { RATE_LIMIT_KEY } from '../accounts/gate.ts';

type GetJob = (request: GetJobRequest, context: CallContext) => Promise<GetJobResponse>;

/** Reads of one message, each answered by itself: one that is refused or fails takes no other with it. */
export function answerEach(logger: Logger, getJob: GetJob) {
  return async ({ requests }: GetJobsRequest, context: CallContext): Promise<GetJobsResponse> => {
    const results = requests.map(async (request): Promise<GetJobResult> => {
      const trailers = new Metadata();
      let outcome: GetJobResult['outcome'];
      try {
        const { job } = await getJob(request, { ...context, trailers });
        if (!job) throw new Error('a read without a job was not refused');
        outcome = { $case: 'job', value: job };
      } catch (error) {
        outcome = { $case: 'refusal', value: refusalOf(error, logger, context) };
      }
      return { outcome, rateLimit: trailers.get(RATE_LIMIT_KEY)[0]?.toString() ?? '' };
    });
    return { results: await Promise.all(results) };
  };
}

function refusalOf(error: unknown, logger: Logger, { requestId }: CallContext) {
  if (error instanceof ApiError && error.code !== 'internal_error')
    return { code: error.code, message: error.message };
  logger.error({ err: error, requestId, method: 'GetJobs' }, `a read failed: ${describeError(error)}`);
  return { code: 'internal_error', message: 'The service failed. Nothing is billed; try again.' };
}
