import type { handleBidiStreamingCall, ServerDuplexStream } from '@grpc/grpc-js';
import { ApiError, describeError } from '#common/errors.ts';
import type { Logger } from '#common/logging.ts';
import type {
  GetJobResult,
  ReadJobsRequest,
  ReadJobsResponse,
  Refusal,
} from '#proto/semblance/control/v1/control.ts';
import type { Gate, Verdict } from '../accounts/gate.ts';
import { isJobId } from '../jobs/job-row.ts';
import type { JobView } from '../jobs/job-view.ts';

export interface ReadStreamsOptions {
  readonly gate: Gate;
  readonly view: JobView;
  readonly logger: Logger;
  /** Told of each message: how long it took in seconds, and `ok` or the code with which all of it failed. */
  readonly onAnswered: (seconds: number, code: string) => void;
}

export interface ReadStreams {
  readonly handle: handleBidiStreamingCall<ReadJobsRequest, ReadJobsResponse>;
  /** Ends every stream as soon as what it took is answered: gateways open it again, elsewhere if need be. */
  end(): void;
}

type Stream = ServerDuplexStream<ReadJobsRequest, ReadJobsResponse>;

/** Answers reads of jobs that come many in a message; one that is refused takes no other with it. */
export function createReadStreams(options: ReadStreamsOptions): ReadStreams {
  const { gate, view, logger, onAnswered } = options;
  const streams = new Set<{ end(): void }>();

  function handle(stream: Stream): void {
    let underWay = 0;
    let ending = false;
    const entry = {
      end() {
        ending = true;
        // What is not taken any more goes unanswered, so that it may be asked of another.
        stream.pause();
        if (underWay === 0) stream.end();
      },
    };
    const gone = () => {
      streams.delete(entry);
    };
    streams.add(entry);
    stream.on('data', (request: ReadJobsRequest) => {
      if (ending) return;
      underWay++;
      void answer(request).then((response) => {
        underWay--;
        if (!streams.has(entry)) return;
        // A gateway that reads slowly is asked for less, not remembered for more.
        if (!stream.write(response) && !ending) {
          stream.pause();
          stream.once('drain', () => ending || stream.resume());
        }
        if (ending && underWay === 0) stream.end();
      });
    });
    stream.on('error', gone);
    stream.on('cancelled', gone);
    stream.on('end', () => {
      gone();
      stream.end();
    });
  }

  async function answer({ number, requests, requestId }: ReadJobsRequest): Promise<ReadJobsResponse> {
    const began = performance.now();
    const asks = requests.map(({ caller, jobId }) => ({ caller, jobId: isJobId(jobId) ? jobId : undefined }));
    let results: GetJobResult[];
    let code = 'ok';
    try {
      const verdicts = await gate.admitAll(asks);
      results = await Promise.all(verdicts.map(resultOf));
    } catch (error) {
      code = error instanceof ApiError ? error.code : 'internal_error';
      const value = refusalOf(error);
      if (value.code === 'internal_error')
        logger.error({ err: error, requestId, method: 'ReadJobs' }, `reads failed: ${describeError(error)}`);
      results = requests.map(() => ({ outcome: { $case: 'refusal', value }, rateLimit: '' }));
    }
    logger.debug({ requestId, method: 'ReadJobs', code, reads: requests.length }, 'call');
    onAnswered((performance.now() - began) / 1000, code);
    return { number, results };
  }

  async function resultOf({ admission, refusal, rateLimit }: Verdict): Promise<GetJobResult> {
    if (refusal) return { outcome: { $case: 'refusal', value: refusalOf(refusal) }, rateLimit };
    const { job, linkSeconds } = admission;
    const outcome: GetJobResult['outcome'] = job
      ? { $case: 'job', value: await view.show(job, linkSeconds) }
      : { $case: 'refusal', value: { code: 'not_found', message: 'There is no such job.' } };
    return { outcome, rateLimit };
  }

  return {
    handle,
    end() {
      for (const stream of streams) stream.end();
    },
  };
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof ApiError && error.code !== 'internal_error')
    return { code: error.code, message: error.message };
  return { code: 'internal_error', message: 'The service failed. Nothing is billed; try again.' };
}
