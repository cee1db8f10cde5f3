import { setTimeout as delay } from 'node:timers/promises';
import { credentials, type ServiceError, status } from '@grpc/grpc-js';
import { describeError } from '@semblance/common/errors';
import { call } from '@semblance/common/grpc/client';
import { EngineServiceClient, type HealthResponse } from '@semblance/proto/semblance/engine/v1/engine';
import { checkedInfo, type SidecarInfo } from './answers.ts';
import { ContractError } from './contract-error.ts';

/** Messages are short, because files travel beside the socket. */
const MAX_MESSAGE_BYTES = 256 * 1024;

export interface SidecarTimes {
  /** Interval between two health checks of a live sidecar, in ms. */
  readonly healthEveryMs: number;
  /** Time without an answer after which a sidecar counts as dead, in ms. */
  readonly deadAfterMs: number;
  /** Time without a message after which a render counts as hanging, in ms. */
  readonly silenceMs: number;
  /** Time in which a render must end after its call was ended, in ms; the same as after a cancel. */
  readonly endMs: number;
}

export const SIDECAR_TIMES: SidecarTimes = {
  healthEveryMs: 1_000,
  deadAfterMs: 15_000,
  silenceMs: 60_000,
  endMs: 1_000,
};

/** The calls of one client to one sidecar. */
export interface Connection {
  readonly client: EngineServiceClient;
  /**
   * Waits for the sidecar, however long that takes, and warms it up.
   * @param hopeless errors after which it does not try again; default: none
   * @throws ContractError, the signal's reason, a hopeless error
   */
  warm(signal: AbortSignal, hopeless?: (error: unknown) => boolean): Promise<SidecarInfo>;
  /** Warms up a sidecar that was warm before. */
  warmAgain(signal: AbortSignal): Promise<void>;
  health(timeoutMs?: number): Promise<HealthResponse>;
  /** Resolves with the reason when the sidecar is gone, hangs or refuses renders; with `undefined` when aborted. */
  lost(signal: AbortSignal): Promise<string | undefined>;
  close(): void;
}

export function connect(socket: string, times: SidecarTimes): Connection {
  const client = new EngineServiceClient(`unix:${socket}`, credentials.createInsecure(), {
    // The client uses health calls instead of HTTP/2 pings, which gRPC servers in other languages refuse by
    // default.
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.min_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': 2_000,
    'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
    'grpc.use_local_subchannel_pool': 1,
    'grpc.default_authority': 'localhost',
  });
  const health = (timeoutMs = 2_000) => call(client.health.bind(client), {}, { timeoutMs });

  async function warmAgain(signal: AbortSignal): Promise<void> {
    // The host limits the time of loading models.
    await call(client.warmUp.bind(client), {}, { timeoutMs: 3_600_000, signal });
  }

  async function connectOnce(signal: AbortSignal): Promise<SidecarInfo> {
    const info = checkedInfo(await call(client.getInfo.bind(client), {}, { timeoutMs: 5_000, signal }));
    await warmAgain(signal);
    // Renders of a dead agent process may still be ending.
    for (;;) {
      const { serving, running } = await health();
      if (serving && running.length === 0) return info;
      await delay(100, undefined, { signal });
    }
  }

  return {
    client,
    health,
    warmAgain,
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
            console.warn(`waiting for the sidecar at ${socket} (${waited} s): ${describeError(error)}`);
          }
          await delay(Math.min(2_000, 100 + waited * 100), undefined, { signal });
        }
      }
    },
    async lost(signal) {
      let answeredAt = performance.now();
      let refused = 0;
      while (!signal.aborted) {
        await delay(refused > 0 ? 100 : times.healthEveryMs, undefined, { signal }).catch(() => {});
        if (signal.aborted) break;
        try {
          const { serving } = await health();
          if (!serving) return 'the sidecar takes no renders now';
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
    },
    close: () => client.close(),
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
