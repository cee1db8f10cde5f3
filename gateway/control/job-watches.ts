import type { ClientDuplexStream } from '@grpc/grpc-js';
import { ApiError, isApiErrorCode } from '@semblance/common/errors';
import type {
  Caller,
  ControlServiceClient,
  JobState,
  WatchJobsRequest,
  WatchJobsResponse,
  WatchOpened,
  WatchRefused,
} from '@semblance/proto/semblance/control/v1/control';

export interface JobWatchesOptions {
  readonly client: Pick<ControlServiceClient, 'watchJobs'>;
  /** Longest wait for a watch to be opened, in ms. */
  readonly timeoutMs: number;
}

export interface WatchAsk {
  readonly caller: Caller;
  readonly jobId: string;
  readonly requestId: string;
}

export interface WatchListener {
  state(state: JobState): void;
  /** Called when the job no longer exists, or the key that asked for it is no longer valid. */
  gone(): void;
}

export interface OpenWatch {
  readonly accountId: string;
  readonly rateLimit: string;
  close(): void;
}

export interface JobWatches {
  /** @throws WatchRefusal when the control plane refuses it or does not answer in time */
  open(ask: WatchAsk, listener: WatchListener): Promise<OpenWatch>;
  close(): void;
}

/** A refusal with the rate limit that applied to it, if any. */
export class WatchRefusal extends ApiError {
  readonly rateLimit: string;

  constructor(error: ApiError, rateLimit: string) {
    super(error.code, error.message, { cause: error, upstream: true });
    this.rateLimit = rateLimit;
  }
}

interface Watch {
  readonly jobId: string;
  readonly listener: WatchListener;
  /** Known when the watch is open. */
  accountId: string;
  keyId: string;
  opening?: {
    readonly ask: WatchAsk;
    resolve(opened: WatchOpened): void;
    reject(error: Error): void;
  };
}

/** Pause before a watch is reopened after a failure, in ms, with jitter. */
const AGAIN_MS = 1_000;
const MAX_BACKOFF_MS = 2_000;

/**
 * Creates all watches of this gateway over one stream to the control plane. When the stream breaks, a new one is
 * made and every watch is opened again. The client only notices a pause, because each message has the present
 * state.
 */
export function createJobWatches({ client, timeoutMs }: JobWatchesOptions): JobWatches {
  const watches = new Map<number, Watch>();
  let stream: ClientDuplexStream<WatchJobsRequest, WatchJobsResponse> | undefined;
  let failures = 0;
  let timer: NodeJS.Timeout | undefined;
  let last = 0;
  let closed = false;

  function connect(): void {
    if (stream || timer || closed) return;
    const made = client.watchJobs();
    stream = made;
    made.on('data', ({ watch, event }: WatchJobsResponse) => {
      failures = 0;
      if (event) hear(watch, event);
    });
    let over = false;
    const ended = () => {
      if (over) return;
      over = true;
      made.cancel();
      stream = undefined;
      if (closed || watches.size === 0) return;
      const backoff = Math.min(MAX_BACKOFF_MS, 50 * 2 ** failures++);
      timer = setTimeout(
        () => {
          timer = undefined;
          if (watches.size > 0) connect();
        },
        backoff * (0.5 + Math.random()),
      );
    };
    made.on('error', ended);
    made.on('end', ended);
    for (const [number, watch] of watches) ask(number, watch);
  }

  function ask(number: number, { jobId, accountId, keyId, opening }: Watch): void {
    stream?.write({
      request: {
        $case: 'open',
        value: {
          watch: number,
          jobId,
          accountId,
          keyId,
          caller: opening?.ask.caller,
          requestId: opening?.ask.requestId ?? '',
        },
      },
    });
  }

  function hear(number: number, event: NonNullable<WatchJobsResponse['event']>): void {
    const watch = watches.get(number);
    if (!watch) return;
    if (event.$case === 'state') watch.listener.state(event.value);
    else if (event.$case === 'refused') refused(number, watch, event.value);
    else {
      watch.accountId = event.value.accountId;
      watch.keyId = event.value.keyId;
      watch.opening?.resolve(event.value);
      watch.opening = undefined;
    }
  }

  function refused(number: number, watch: Watch, { refusal, rateLimit }: WatchRefused): void {
    const code = isApiErrorCode(refusal?.code) ? refusal.code : 'internal_error';
    if (watch.opening) {
      const message = refusal?.message || 'The service failed. Try again.';
      const error = new ApiError(code, message, { upstream: true });
      watch.opening.reject(new WatchRefusal(error, rateLimit));
    } else if (code === 'not_found' || code === 'unauthorized') {
      watches.delete(number);
      watch.listener.gone();
    } else {
      // The cause is the control plane, not the watch.
      const again = () => {
        if (watches.get(number) === watch) ask(number, watch);
      };
      setTimeout(again, AGAIN_MS * (0.5 + Math.random()));
    }
  }

  function stop(number: number): void {
    if (!watches.delete(number)) return;
    stream?.write({ request: { $case: 'close', value: number } });
  }

  /** A separate function, so that the closure keeps only the number in memory while the watch is open. */
  function stopOf(number: number): () => void {
    return () => stop(number);
  }

  function nextNumber(): number {
    do last = last >= 0xffff_fffe ? 1 : last + 1;
    while (watches.has(last));
    return last;
  }

  return {
    async open(asked, listener) {
      const number = nextNumber();
      const watch: Watch = { jobId: asked.jobId, listener, accountId: '', keyId: '' };
      let late: NodeJS.Timeout | undefined;
      try {
        const { accountId, rateLimit } = await new Promise<WatchOpened>((resolve, reject) => {
          watch.opening = { ask: asked, resolve, reject };
          late = setTimeout(() => reject(new WatchRefusal(noAnswer(), '')), timeoutMs);
          watches.set(number, watch);
          if (stream) ask(number, watch);
          else connect();
        });
        return { accountId, rateLimit, close: stopOf(number) };
      } catch (error) {
        stop(number);
        throw error;
      } finally {
        clearTimeout(late);
      }
    },
    close() {
      closed = true;
      clearTimeout(timer);
      watches.clear();
      stream?.cancel();
    },
  };
}

function noAnswer(): ApiError {
  return new ApiError(
    'internal_error',
    'A service behind the gateway did not answer in time. Nothing is billed; try again.',
    { upstream: true },
  );
}
