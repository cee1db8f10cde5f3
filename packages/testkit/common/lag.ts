import { setTimeout as delay } from 'node:timers/promises';

const EVERY_MS = 20;
/** Time in ms beyond `EVERY_MS` that a pause and a trivial question take on a machine that keeps up. */
const USUAL_MS = 50;

/**
 * Measures the delay of the machine itself, so that a time limit can be tested on one that stands still now and
 * then. It repeats a pause and a trivial question to a server.
 */
export function watchLag(ask: () => Promise<unknown>): { stop(): Promise<number> } {
  let lateMs = 0;
  let running = true;
  const work = (async () => {
    while (running) {
      const began = performance.now();
      await delay(EVERY_MS);
      await ask().catch(() => {});
      lateMs += Math.max(0, performance.now() - began - EVERY_MS - USUAL_MS);
    }
  })();
  return {
    /** @returns the sum of all delays, in ms */
    async stop() {
      running = false;
      await work;
      return lateMs;
    },
  };
}
