import { setTimeout as delay } from 'node:timers/promises';
import { type ServiceError, status } from '@grpc/grpc-js';
import { describeError } from '@semblance/common/errors';
import { ContractError } from './contract-error.ts';

export interface LinkTimes {
  /** Interval between two health checks of a sidecar that is there, in ms. */
  readonly healthEveryMs: number;
  /** Time without an answer after which a sidecar counts as dead, in ms. */
  readonly deadAfterMs: number;
}

interface Health {
  /** Whether it takes new work. */
  readonly serving: boolean;
  /** Ids of the work that has not ended. */
  readonly running: readonly string[];
}

/** The calls that every sidecar answers. */
export interface LinkCalls<Info, Answer extends Health> {
  /** @throws ContractError */
  getInfo(signal: AbortSignal): Promise<Info>;
  warmUp(signal: AbortSignal): Promise<void>;
  health(timeoutMs?: number): Promise<Answer>;
  /** Returns why a sidecar that answers is lost all the same; undefined if it is not. Called at each health check. */
  faultOf(answer: Answer): string | undefined;
  /** Resolves with the reason when the connection is cut, which a program that is started again quickly hides from Health. */
  readonly dropped?: () => Promise<string>;
  /** Writes a line to the log; default: as a warning to the console. */
  readonly say?: (line: string) => void;
}

/** How a client waits for its sidecar, and learns that it is gone. */
export interface Link<Info> {
  /**
   * Waits for the sidecar, however long that takes, and warms it up.
   * @param hopeless errors after which it does not try again; default: none
   * @throws ContractError, the signal's reason, a hopeless error
   */
  warm(signal: AbortSignal, hopeless?: (error: unknown) => boolean): Promise<Info>;
  /** Warms up a sidecar that was warm before. */
  warmAgain(signal: AbortSignal): Promise<void>;
  /** Resolves with the reason when the sidecar is gone, hangs or has a fault; with `undefined` when aborted. */
  lost(signal: AbortSignal): Promise<string | undefined>;
}

/** @param socket path of its socket, for the log */
export function createLink<Info, Answer extends Health>(
  socket: string,
  times: LinkTimes,
  { getInfo, warmUp, health, faultOf, dropped, say = console.warn }: LinkCalls<Info, Answer>,
): Link<Info> {
  async function connectOnce(signal: AbortSignal): Promise<Info> {
    const info = await getInfo(signal);
    await warmUp(signal);
    // Work of a dead agent process may still be ending.
    for (;;) {
      const { serving, running } = await health();
      if (serving && running.length === 0) return info;
      await delay(100, undefined, { signal });
    }
  }

  /** Resolves as `lost` does. */
  async function unhealthy(signal: AbortSignal): Promise<string | undefined> {
    let answeredAt = performance.now();
    let refused = 0;
    while (!signal.aborted) {
      await delay(refused > 0 ? 100 : times.healthEveryMs, undefined, { signal }).catch(() => {});
      if (signal.aborted) break;
      try {
        const fault = faultOf(await health());
        if (fault !== undefined) return fault;
        answeredAt = performance.now();
        refused = 0;
      } catch (error) {
        // UNAVAILABLE means that nobody listens: the process is gone. A deadline only means that it is slow.
        refused = (error as ServiceError).code === status.UNAVAILABLE ? refused + 1 : 0;
        if (refused >= 3) return `the sidecar is gone: ${describeError(error)}`;
        const silent = performance.now() - answeredAt;
        if (silent > times.deadAfterMs) {
          return `the sidecar has not answered for ${Math.round(silent / 1_000)} s`;
        }
      }
    }
    return undefined;
  }

  return {
    warmAgain: warmUp,
    async warm(signal, hopeless = () => false) {
      const began = performance.now();
      let loggedSec = 0;
      for (;;) {
        try {
          return await connectOnce(signal);
        } catch (error) {
          if (signal.aborted) throw signal.reason;
          if (error instanceof ContractError || isTooLarge(error) || hopeless(error)) throw error;
          const waited = Math.floor((performance.now() - began) / 1_000);
          // A sidecar that was only just started is not worth a log line.
          if (waited >= Math.max(2, loggedSec * 2)) {
            loggedSec = waited;
            say(`waiting for the sidecar at ${socket} (${waited} s): ${describeError(error)}`);
          }
          await delay(Math.min(2_000, 100 + waited * 100), undefined, { signal });
        }
      }
    },
    async lost(signal) {
      if (!dropped) return unhealthy(signal);
      const ending = new AbortController();
      try {
        return await Promise.race([unhealthy(AbortSignal.any([signal, ending.signal])), dropped()]);
      } finally {
        ending.abort();
      }
    },
  };
}

/**
 * Returns whether the client itself refused a message beyond the limit. The code is the same as of an engine that
 * is out of resources.
 */
export function isTooLarge(error: unknown): boolean {
  const { code, details = '' } = error as ServiceError;
  return code === status.RESOURCE_EXHAUSTED && /larger than max/i.test(details);
}
