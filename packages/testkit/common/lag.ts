import { setTimeout as delay } from 'node:timers/promises';

const EVERY_MS = 20;
/** What a pause and a trivial question take together beyond `EVERY_MS`, on a machine that keeps up. */
const USUAL_MS = 50;

/**
 * Measures by how much the machine itself is late, so that a promise of so many seconds can be held to on one that
 * stands still now and then: again and again a pause, and the same trivial question to a server.
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
    /** @returns milliseconds in all */
    async stop() {
      running = false;
      await work;
      return lateMs;
    },
  };
}
