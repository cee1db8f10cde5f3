import { StorageError, withDeadline } from './sql.ts';

export interface BatcherOptions<Request, Answer> {
  /** Answers all requests of a batch, in their order. An Error in the place of an answer refuses that request alone. */
  readonly run: (requests: readonly Request[]) => Promise<readonly (Answer | Error)[]>;
  /** Batches under way at once. Default 1. */
  readonly concurrency?: number;
  /** Requests in one batch. Default 256. */
  readonly maxSize?: number;
  /**
   * States what a request counts for in the size of its batch; one that is larger than a batch goes alone. Default 1.
   */
  readonly sizeOf?: (request: Request) => number;
  /** Requests that may wait; more are refused at once. Default 10000. */
  readonly maxWaiting?: number;
  /** Time after which a request is given up, waiting included. */
  readonly deadlineMs: number;
  /** True when a failed batch had no effect and each of its requests may be tried alone. Default: never. */
  readonly divisible?: (error: unknown) => boolean;
}

export interface Batcher<Request, Answer> {
  submit(request: Request): Promise<Answer>;
}

interface Waiting<Request, Answer> {
  readonly request: Request;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
  /** Its caller has been told that it took too long: what was not begun by then is not begun any more. */
  givenUp: boolean;
}

/**
 * Group commit: requests that arrive while a batch is under way form the next one. An idle batcher starts at once, so
 * there is no added delay; a busy one does as few round trips as the database can answer.
 */
export function createBatcher<Request, Answer>(
  options: BatcherOptions<Request, Answer>,
): Batcher<Request, Answer> {
  const { run, concurrency = 1, maxSize = 256, sizeOf, maxWaiting = 10_000, deadlineMs } = options;
  type Entry = Waiting<Request, Answer>;
  let waiting: Entry[] = [];
  let underWay = 0;
  let scheduled = false;

  function start() {
    scheduled = false;
    waiting = waiting.filter(({ givenUp }) => !givenUp);
    while (underWay < concurrency && waiting.length > 0) {
      const batch = waiting.splice(0, fitting(waiting));
      underWay++;
      // A batch that hangs gives its place free at the deadline: the callers in it have been answered by then.
      withDeadline(execute(batch), deadlineMs)
        .catch(() => {})
        .finally(() => {
          underWay--;
          start();
        });
    }
  }

  /** How many of the first that wait make a batch. */
  function fitting(entries: readonly Entry[]): number {
    if (!sizeOf) return maxSize;
    let count = 0;
    for (let size = 0; count < entries.length; count++) {
      size += sizeOf((entries[count] as Entry).request);
      if (size > maxSize && count > 0) break;
    }
    return count;
  }

  async function execute(batch: Entry[]): Promise<void> {
    try {
      const answers = await run(batch.map(({ request }) => request));
      if (answers.length !== batch.length)
        throw new Error(`batch of ${batch.length} got ${answers.length} answers`);
      batch.forEach(({ resolve, reject }, i) => {
        const answer = answers[i] as Answer | Error;
        if (answer instanceof Error) reject(answer);
        else resolve(answer);
      });
    } catch (error) {
      if (batch.length > 1 && options.divisible?.(error)) {
        // One request that the database cannot take must not fail those that happened to arrive with it.
        for (const entry of batch) if (!entry.givenUp) await execute([entry]);
        return;
      }
      for (const { reject } of batch) reject(error);
    }
  }

  return {
    submit(request) {
      if (waiting.length >= maxWaiting)
        return Promise.reject(new StorageError(`${maxWaiting} requests wait for the database already`));
      let entry: Entry | undefined;
      const answer = new Promise<Answer>((resolve, reject) => {
        entry = { request, resolve, reject, givenUp: false };
        waiting.push(entry);
      });
      // Requests decoded from one network read are submitted in one turn of the loop: let them travel together.
      if (!scheduled && underWay < concurrency) {
        scheduled = true;
        queueMicrotask(start);
      }
      return withDeadline(answer, deadlineMs).catch((error) => {
        if (entry) entry.givenUp = true;
        throw error;
      });
    },
  };
}
