import { setTimeout as delay } from 'node:timers/promises';
import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { type CheckSubject, ContentCheckError, type Verdict } from './check.ts';

/** Handles the answers of an owner's service, for both protocols. */

const REASON_MOST = 500;

export interface AskingOptions {
  readonly tries?: number;
  readonly pauseMs?: number;
  readonly logger: Logger;
}

/**
 * Asks the service until there is a verdict.
 * @param ask throws ContentCheckError for an answer that another try would not change
 * @throws ContentCheckError, or the signal's reason
 */
export async function verdictOf(
  ask: () => Promise<Verdict>,
  { tries = 3, pauseMs = 500, logger }: AskingOptions,
  signal: AbortSignal,
): Promise<Verdict> {
  for (let tried = 1; ; tried++) {
    signal.throwIfAborted();
    try {
      return await ask();
    } catch (error) {
      signal.throwIfAborted();
      const again = !(error instanceof ContentCheckError) && tried < tries;
      const reason = describeError(error);
      if (!again) {
        throw new ContentCheckError(`the content check gave no verdict: ${reason}`, { cause: error });
      }
      logger.warn({ reason, tried }, 'the content check did not answer; asking again');
      await delay(pauseMs * 2 ** (tried - 1), undefined, { signal });
    }
  }
}

/** @param reason as the service wrote it */
export function rejection(reason: string | undefined, { phase }: CheckSubject): Verdict {
  const fallback =
    phase === 'input' ? 'The input failed a content check.' : 'The result failed a content check.';
  const readable = (reason ?? '')
    .replace(/[\p{C}\s]+/gu, ' ')
    .trim()
    .slice(0, REASON_MOST);
  return { allowed: false, reason: readable || fallback };
}
