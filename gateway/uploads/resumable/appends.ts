import { setTimeout as delay } from 'node:timers/promises';
import { ClientGoneError } from '../../http/request-body.ts';

/** Longest wait for an earlier request to store what it has, in ms. */
const STOP_MS = 5_000;

export interface Appends {
  /**
   * Ends the earlier request of the same caller that continues an upload at this gateway, after it stored what it has.
   * One at another gateway is fenced by its number, and loses the part that it has not recorded.
   */
  stop(name: string): Promise<void>;
  /** Does work that `stop` ends by the signal. */
  run<Result>(name: string, work: (stop: AbortSignal) => Promise<Result>): Promise<Result>;
}

/** Knows the requests of this gateway that continue an upload, by caller and upload. */
export function createAppends(): Appends {
  const running = new Map<string, { stop: AbortController; ended: Promise<unknown> }>();
  return {
    async stop(name) {
      const found = running.get(name);
      if (!found) return;
      found.stop.abort(new ClientGoneError('a later request continues the upload'));
      await Promise.race([found.ended, delay(STOP_MS, undefined, { ref: false })]);
    },
    async run(name, work) {
      const stop = new AbortController();
      const done = Promise.withResolvers<void>();
      const entry = { stop, ended: done.promise };
      running.set(name, entry);
      try {
        return await work(stop.signal);
      } finally {
        if (running.get(name) === entry) running.delete(name);
        done.resolve();
      }
    },
  };
}
