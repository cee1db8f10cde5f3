import { setTimeout as delay } from 'node:timers/promises';
import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { createRefusals } from '@semblance/common/refusals';
import { type ConnectionOptions, connect, ErrorCode } from 'nats';

const EVERY_MS = 1_000;
/** Pause after which an unchanged fault is logged again, in ms. */
const SAY_AGAIN_MS = 60_000;

export interface ExplainOptions {
  readonly to: ConnectionOptions;
  readonly logger: Logger;
  /** Whether the connection stands, so that nothing needs an explanation any more. */
  readonly done: () => boolean;
  readonly onFault: (why: string) => void;
  readonly signal: AbortSignal;
}

/**
 * Logs why there is no connection yet. A NATS client that waits for its first connection retries without a reason,
 * so this function tries with a client of its own.
 * @throws ConfigError when the server keeps refusing the credentials
 */
export async function explainNats({ to, logger, done, onFault, signal }: ExplainOptions): Promise<void> {
  const refusals = createRefusals('SEMBLANCE_NATS_URL');
  for (let logged = { text: '', at: 0 }; ; ) {
    await delay(EVERY_MS, undefined, { signal }).catch(() => {});
    if (done() || signal.aborted) return;
    try {
      await (await connect({ ...to, reconnect: false, timeout: 3_000 })).close();
    } catch (error) {
      if (done() || signal.aborted) return;
      const text = describeError(error);
      onFault(text);
      if (text !== logged.text || performance.now() - logged.at >= SAY_AGAIN_MS) {
        logged = { text, at: performance.now() };
        logger.warn(`cannot connect to NATS: ${text}`);
      }
      refusals.count(error, (error as { code?: string }).code === ErrorCode.AuthorizationViolation);
    }
  }
}
