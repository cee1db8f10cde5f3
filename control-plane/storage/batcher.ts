import { StorageError, withDeadline } from './sql.ts';

/** Requests that may wait; more are refused at once. */
export const MAX_WAITING = 10_000;

export interface BatcherOptions<Request, Answer> {
  /** Answers all requests of a batch, in their order. An Error instead of an answer refuses only that request. */
  readonly run: (requests: readonly Request[]) => Promise<readonly (Answer | Error)[]>;
  /** Batches under way at once. Default 1. */
  readonly concurrency?: number;
  /** Requests in one batch. Default 256. */
  readonly maxSize?: number;
  /** Returns the weight of a request in the size of its batch; one larger than a batch goes alone. Default 1. */
  readonly sizeOf?: (request: Request) => number;
  /** Time after which a request is given up, including its wait. */
  readonly deadlineMs: number;
  /** Returns true when a failed batch had no effect and each of its requests may be tried alone. Default: never. */
  readonly divisible?: (error: unknown) => boolean;
}

export interface Batcher<Request, Answer> {
  submit(request: Request): Promise<Answer>;
}

interface Waiting<Request, Answer> {
  readonly request: Request;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
  /** Its caller was told that it took too long, so it is not begun any more. */
  givenUp: boolean;
}

/**
 * Group commit: requests that arrive while a batch is under way form the next one. An idle batcher starts at once,
 * without added delay; a busy one makes as few round trips as possible.
 */
export function createBatcher<Request, Answer>(
  options: BatcherOptions<Request, Answer>,
): Batcher<Request, Answer> {
  const { run, concurrency = 1, maxSize = 256, sizeOf, deadlineMs } = options;
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
      // A hanging batch frees its place at the deadline, when its callers have been answered.
      withDeadline(execute(batch), deadlineMs)
        .catch(() => {})
        .finally(() => {
          underWay--;
          start();
        });
    }
  }

  /** Returns how many of the first waiting requests make a batch. */
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
        // A request that the database refuses must not fail those that arrived with it.
        for (const entry of batch) if (!entry.givenUp) await execute([entry]);
        return;
      }
      for (const { reject } of batch) reject(error);
    }
  }

  return {
    submit(request) {
      if (waiting.length >= MAX_WAITING)
        return Promise.reject(new StorageError(`${MAX_WAITING} requests wait for the database already`));
      let entry: Entry | undefined;
      const answer = new Promise<Answer>((resolve, reject) => {
        entry = { request, resolve, reject, givenUp: false };
        waiting.push(entry);
      });
      // Requests decoded from one network read are submitted in one turn of the loop, so they wait for its end and
      // travel together.
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
