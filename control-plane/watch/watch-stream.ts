import { type handleBidiStreamingCall, Metadata, type ServerDuplexStream } from '@grpc/grpc-js';
import { ApiError, describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import type {
  JobState,
  WatchJobsRequest,
  WatchJobsResponse,
  WatchOpen,
} from '@semblance/proto/semblance/control/v1/control';
import { type Gate, RATE_LIMIT_KEY, usableKeys } from '../accounts/gate.ts';
import { isJobId } from '../jobs/job-row.ts';
import type { Database } from '../storage/database.ts';
import { createKeyChecks } from './key-checks.ts';
import type { WatchHub } from './watch-hub.ts';

export interface WatchStreamsOptions {
  readonly gate: Gate;
  readonly database: Database;
  readonly hub: WatchHub;
  readonly logger: Logger;
}

export interface WatchStreams {
  readonly handle: handleBidiStreamingCall<WatchJobsRequest, WatchJobsResponse>;
  /** Ends every stream; gateways open them again, elsewhere if needed. */
  end(): void;
}

/** Watches on one stream: more than any gateway has. */
const MAX_WATCHES = 20_000;

type Stream = ServerDuplexStream<WatchJobsRequest, WatchJobsResponse>;

export function createWatchStreams({ gate, database, hub, logger }: WatchStreamsOptions): WatchStreams {
  const streams = new Set<Stream>();
  const keys = createKeyChecks({ usable: (keyIds) => usableKeys(database, keyIds), logger });

  function handle(stream: Stream): void {
    const watches = new Map<number, { close: () => void }>();
    const outgoing = createOutgoing(stream);
    const end = () => {
      if (!streams.delete(stream)) return;
      for (const { close } of watches.values()) close();
      watches.clear();
      outgoing.stop();
    };
    streams.add(stream);
    stream.on('data', ({ request }: WatchJobsRequest) => {
      if (request?.$case === 'open') void open(request.value);
      else if (request?.$case === 'close') {
        watches.get(request.value)?.close();
        watches.delete(request.value);
        outgoing.forget(request.value);
      }
    });
    stream.on('error', end);
    stream.on('cancelled', end);
    stream.on('end', () => {
      end();
      stream.end();
    });

    async function open(asked: WatchOpen): Promise<void> {
      const { watch, jobId } = asked;
      const entry = { close: () => {} };
      const trailers = new Metadata();
      const rateLimit = () => trailers.get(RATE_LIMIT_KEY)[0]?.toString() ?? '';
      if (watches.has(watch)) return;
      watches.set(watch, entry);
      const isOpen = () => watches.get(watch) === entry;
      const refuse = (refusal: { code: string; message: string }) => {
        if (!isOpen()) return;
        entry.close();
        watches.delete(watch);
        outgoing.forget(watch);
        const refused = { refusal, rateLimit: rateLimit() };
        outgoing.send({ watch, event: { $case: 'refused', value: refused } });
      };
      try {
        if (watches.size > MAX_WATCHES)
          throw new ApiError('at_capacity', 'Too many jobs are followed at once.');
        const asks = isJobId(jobId) ? jobId : undefined;
        const { accountId, keyId } = asked.accountId ? asked : await admit(asked, trailers, asks);
        if (!isOpen()) return;
        if (asks === undefined) throw noSuchJob();
        logger.debug({ requestId: asked.requestId, method: 'WatchJobs', code: 'ok', jobId }, 'call');
        const opened = { accountId, keyId, rateLimit: rateLimit() };
        outgoing.send({ watch, event: { $case: 'opened', value: opened } });
        const unwatch = hub.watch(jobId, accountId, (state, withLinks) => {
          if (!state) refuse(noSuchJob());
          // Only the last state of a job has a link, so none can overtake it.
          else if (state.job?.status !== 'succeeded' || !withLinks) outgoing.tell(watch, state);
          else
            withLinks(keyId || undefined).then(
              (job) => isOpen() && outgoing.tell(watch, { ...state, job }),
              (error: unknown) => refuse(refusalOf(error, asked)),
            );
        });
        // A gateway of the release before does not name its key.
        const unfollow = keyId ? keys.follow(keyId, () => refuse(revoked())) : undefined;
        entry.close = () => {
          unwatch();
          unfollow?.();
        };
        // Refused while it was being opened, so nobody else would end it.
        if (!isOpen()) entry.close();
      } catch (error) {
        refuse(refusalOf(error, asked));
      }
    }
  }

  async function admit({ caller }: WatchOpen, trailers: Metadata, jobId: string | undefined) {
    const { accountId, keyId, job } = await gate.admit(caller, trailers, jobId);
    if (!job) throw noSuchJob();
    return { accountId, keyId };
  }

  function refusalOf(error: unknown, { requestId, jobId }: WatchOpen): { code: string; message: string } {
    const code = error instanceof ApiError ? error.code : 'internal_error';
    logger.debug({ requestId, method: 'WatchJobs', code }, 'call');
    if (error instanceof ApiError && error.code !== 'internal_error')
      return { code: error.code, message: error.message };
    logger.error(
      { err: error, requestId, jobId, method: 'WatchJobs' },
      `cannot handle a watch: ${describeError(error)}`,
    );
    return { code: 'internal_error', message: 'The service failed. Nothing is billed; try again.' };
  }

  return {
    handle,
    end() {
      for (const stream of streams) stream.end();
    },
  };
}

function revoked(): ApiError {
  return new ApiError('unauthorized', 'The API key was revoked.');
}

function noSuchJob(): ApiError {
  return new ApiError('not_found', 'There is no such job.');
}

/**
 * Creates the queue of a stream, which sends no faster than the other side reads. Only the newest state of each
 * watch waits, so memory is bounded by the number of watches.
 */
function createOutgoing(stream: Stream) {
  const answers: WatchJobsResponse[] = [];
  const states = new Map<number, JobState>();
  let full = false;
  let stopped = false;

  function write(response: WatchJobsResponse) {
    full = !stream.write(response);
  }

  function flush() {
    while (!full && !stopped) {
      const answer = answers.shift();
      if (answer) {
        write(answer);
        continue;
      }
      const [next] = states;
      if (!next) return;
      const [watch, value] = next;
      states.delete(watch);
      write({ watch, event: { $case: 'state', value } });
    }
  }

  stream.on('drain', () => {
    full = false;
    flush();
  });

  return {
    send(response: WatchJobsResponse) {
      answers.push(response);
      flush();
    },
    tell(watch: number, state: JobState) {
      states.set(watch, state);
      flush();
    },
    forget: (watch: number) => void states.delete(watch),
    stop() {
      stopped = true;
      answers.length = 0;
      states.clear();
    },
  };
}
