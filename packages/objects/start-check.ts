import { setTimeout as delay } from 'node:timers/promises';
import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { createRefusals } from '@semblance/common/refusals';
import type { OpenedObjectStore } from './open.ts';
import { StoreFault } from './store.ts';

const EVERY_MS = 1_000;
const ANSWER_MS = 5_000;
/** Interval at which a lasting fault is logged again, in ms. */
const SAY_AGAIN_MS = 60_000;

export interface StartCheck {
  /** Check for `/readyz`; empty if the store is not another server. */
  readonly ready: Readonly<Record<string, () => void>>;
  close(): void;
}

/**
 * Tries the object store until it was reached once. A service is not ready before that, so settings that cannot
 * work are never rolled out. Later an unreachable store fails only the requests that need it.
 *
 * When the store refuses the credentials, the error ends the process as `createRefusals` says.
 */
export function checkAtStart(
  store: OpenedObjectStore,
  logger: Logger,
  { everyMs = EVERY_MS }: { everyMs?: number } = {},
): StartCheck {
  const { check } = store;
  if (!check) return { ready: {}, close: () => {} };
  const end = new AbortController();
  const refusals = createRefusals('AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY');
  let fault: string | undefined = 'the object store has not been asked yet';

  async function run(): Promise<void> {
    for (let logged = { text: '', at: 0 }; ; ) {
      try {
        await check?.call(store, end.signal, ANSWER_MS);
        if (logged.text) logger.info('the object store answers');
        fault = undefined;
        return;
      } catch (error) {
        if (end.signal.aborted) return;
        fault = describeError(error);
        if (fault !== logged.text || performance.now() - logged.at >= SAY_AGAIN_MS) {
          logged = { text: fault, at: performance.now() };
          logger.warn(`cannot use the object store yet: ${fault}`);
        }
        refusals.count(error, error instanceof StoreFault && error.refused);
      }
      await delay(everyMs, undefined, { signal: end.signal }).catch(() => {});
      if (end.signal.aborted) return;
    }
  }
  void run().catch((error: unknown) =>
    queueMicrotask(() => {
      throw error;
    }),
  );
  return {
    ready: {
      objects() {
        if (fault !== undefined) throw new Error(fault);
      },
    },
    close: () => end.abort(),
  };
}
