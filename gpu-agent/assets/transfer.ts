import { setTimeout as delay } from 'node:timers/promises';
import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { Agent } from 'undici';
import { AssetError } from './errors.ts';

/** Time limits of transfers, in ms. */
export interface TransferLimits {
  readonly connectMs: number;
  readonly headersMs: number;
  /** Longest silence within a body. */
  readonly idleMs: number;
  /** Lowest rate, as a mean over `rateWindowMs`; a slower body is given up. */
  readonly leastBytesPerSecond: number;
  readonly rateWindowMs: number;
  /** Tries of one fetch, including the first. */
  readonly tries: number;
  /** Tries to store an output. There are more of them, because giving up loses a whole render. */
  readonly storeTries: number;
  /** Pause before the second try; doubled for each further one up to `maxPauseMs`, with jitter. */
  readonly pauseMs: number;
  readonly maxPauseMs: number;
}

export const DEFAULT_TRANSFER_LIMITS: TransferLimits = {
  connectMs: 5_000,
  headersMs: 15_000,
  idleMs: 15_000,
  leastBytesPerSecond: 1_024,
  rateWindowMs: 20_000,
  // The tries take half a minute when connections are refused at once, and two minutes at most.
  tries: 10,
  storeTries: 28,
  pauseMs: 200,
  maxPauseMs: 5_000,
};

/** Creates the dispatcher for object stores. It does not follow redirects, because a signed link names one place. */
export function createDispatcher(limits: TransferLimits): Agent {
  return new Agent({
    connect: { timeout: limits.connectMs },
    headersTimeout: limits.headersMs,
    bodyTimeout: limits.idleMs,
    keepAliveTimeout: 10_000,
    connections: 64,
    pipelining: 1,
    // In undici 8.12 a request aborted on an HTTP/2 connection can make its client loop for ever.
    allowH2: false,
  });
}

/** @throws AssetError `bad_link` for anything but http and https */
export function checkedUrl(text: string): URL {
  if (!URL.canParse(text)) throw new AssetError('bad_link', 'a link is not a URL');
  const url = new URL(text);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new AssetError('bad_link', `links of ${url.protocol} are not followed`);
  }
  return url;
}

/** Returns the error for an answer that is not a success. */
export function refusal(doing: string, url: URL, status: number): AssetError {
  const message = `${doing} ${url.host} answered ${status}`;
  if (status >= 500 || status === 408 || status === 425 || status === 429) {
    return new AssetError('transfer_failed', message, { retryable: true });
  }
  if (status >= 300 && status < 400) {
    return new AssetError('link_refused', `${message}; redirects are not followed`);
  }
  return new AssetError('link_refused', message);
}

/** Converts connection faults into a retryable AssetError; AssetErrors and aborts stay unchanged. */
export function transferError(error: unknown, doing: string, url: URL, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  if (error instanceof AssetError) return error;
  const message = `${doing} ${url.host} failed: ${describeError(error)}`;
  return new AssetError('transfer_failed', message, { retryable: true, cause: error });
}

/** Repeats the call until it succeeds, fails permanently, or the tries are used up; then throws the last error. */
export async function withRetries<T>(options: {
  readonly limits: TransferLimits;
  readonly tries: number;
  readonly signal: AbortSignal;
  readonly logger: Logger;
  readonly doing: string;
  readonly onRetry: () => void;
  readonly attempt: () => Promise<T>;
}): Promise<T> {
  const { limits, tries, signal, logger, doing } = options;
  for (let tried = 1; ; tried++) {
    signal.throwIfAborted();
    try {
      return await options.attempt();
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (!(error instanceof AssetError && error.retryable) || tried >= tries) throw error;
      const pause =
        Math.min(limits.maxPauseMs, limits.pauseMs * 2 ** (tried - 1)) * (0.5 + Math.random() / 2);
      logger.warn({ err: error, tried, pauseMs: Math.round(pause) }, `${doing} again: ${error.message}`);
      options.onRetry();
      // An abort ends the pause; the head of the loop throws its reason.
      await delay(pause, undefined, { signal }).catch(() => {});
    }
  }
}

/** Calls `onSlow` once when bytes come too slowly. The returned function stops the check. */
export function watchRate(limits: TransferLimits, total: () => number, onSlow: () => void): () => void {
  let last = total();
  const timer = setInterval(() => {
    const moved = total() - last;
    last += moved;
    if (moved >= (limits.leastBytesPerSecond * limits.rateWindowMs) / 1000) return;
    clearInterval(timer);
    onSlow();
  }, limits.rateWindowMs);
  return () => clearInterval(timer);
}
