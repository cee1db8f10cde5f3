import { setTimeout as delay } from 'node:timers/promises';
import { type ServiceError, status } from '@grpc/grpc-js';
import { ApiError, describeError } from '@semblance/common/errors';
import { call, createClient } from '@semblance/common/grpc/client';
import { CODE_KEY, fromServiceError } from '@semblance/common/grpc/status';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import type { Lease, Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import {
  type AllocateRequest,
  type AllocateResponse,
  AllocationServiceClient,
} from '@semblance/proto/semblance/operator/v1/operator';

/** Lease for which the operators compete; its annotation has the address of the leader. */
export const OPERATOR_LEASE = 'semblance-operator';
export const ADDRESS_ANNOTATION = 'semblance.dev/address';
/** Annotation of that Lease: `true`, the leader asks the control plane for texts of jobs. */
export const TEXTS_ANNOTATION = 'semblance.dev/reads-texts';

export interface AllocatorOptions {
  /** The operators' Lease, kept up to date. */
  readonly leases: Pick<Reflector<Lease>, 'get'>;
  readonly namespace: string;
  readonly logger: Logger;
  /** Sent to the operator. */
  readonly internalToken?: string | undefined;
  readonly tls?: Tls | undefined;
  /** Time for which a leading operator is searched. Default 5 s. */
  readonly patienceMs?: number;
}

export interface AllocateCall {
  /** Aborted when nobody waits for the slot any more. */
  readonly signal: AbortSignal;
  /** Trace to continue. */
  readonly traceparent?: string | undefined;
}

export interface Allocator {
  /**
   * Binds a session to a warm slot. Repeated while no operator leads or the leader is gone; the session's id makes
   * it one allocation.
   * @throws ApiError capacity_unavailable, capacity_warming: no slot; internal_error: unknown whether there is one.
   * The
   *   signal's reason when it aborts first.
   */
  allocate(request: AllocateRequest, call: AllocateCall): Promise<AllocateResponse>;
  close(): void;
}

/** Pause between two attempts, in ms. */
const PAUSE_MS = 150;
/** Least time of an attempt, however late it is, in ms: an operator waits a moment for a slot that becomes free. */
const LEAST_MS = 1_000;

export function createAllocator(options: AllocatorOptions): Allocator {
  const { leases, namespace, logger, internalToken, tls, patienceMs = 5_000 } = options;
  const clients = new Map<string, { readonly client: AllocationServiceClient; calls: number }>();

  const leader = () => leases.get(OPERATOR_LEASE, namespace)?.metadata.annotations?.[ADDRESS_ANNOTATION];

  function clientOf(address: string) {
    let entry = clients.get(address);
    if (!entry) {
      const client = createClient(AllocationServiceClient, address, internalToken, tls?.to('operator'));
      entry = { client, calls: 0 };
      clients.set(address, entry);
    }
    return entry;
  }

  /** Closes the connections to former leaders after their last call. */
  function forgetOthers(address: string): void {
    for (const [former, { client, calls }] of clients) {
      if (former === address || calls > 0) continue;
      client.close();
      clients.delete(former);
    }
  }

  async function ask(address: string, request: AllocateRequest, timeoutMs: number, asked: AllocateCall) {
    const entry = clientOf(address);
    const { client } = entry;
    entry.calls++;
    try {
      const { requestId } = request;
      return await call(client.allocate.bind(client), request, {
        ...asked,
        timeoutMs,
        ...(requestId ? { requestId } : {}),
      });
    } finally {
      entry.calls--;
      forgetOthers(leader() ?? address);
    }
  }

  return {
    async allocate(request, asked) {
      const { signal } = asked;
      const until = performance.now() + patienceMs;
      let last: unknown;
      for (;;) {
        signal.throwIfAborted();
        const address = leader();
        if (address) {
          try {
            const timeoutMs = Math.max(LEAST_MS, until - performance.now());
            return await ask(address, request, timeoutMs, asked);
          } catch (error) {
            signal.throwIfAborted();
            const refused = fromServiceError(error as ServiceError);
            if (refused.code !== 'internal_error') throw refused;
            if (!isPassing(error as ServiceError)) throw refused;
            last = error;
          }
        }
        if (performance.now() + PAUSE_MS >= until) {
          const { sessionId } = request;
          const why = last === undefined ? 'no operator leads' : describeError(last);
          logger.warn({ sessionId }, `cannot get a slot for a session: ${why}`);
          const message = 'Live sessions cannot be placed at present. Try again.';
          // An attempt without an answer may have been carried out.
          if (last === undefined) throw new ApiError('capacity_unavailable', message);
          throw new ApiError('internal_error', message, { cause: last, upstream: true });
        }
        await delay(PAUSE_MS, undefined, { signal }).catch(() => {});
      }
    },
    close() {
      for (const { client } of clients.values()) client.close();
      clients.clear();
    },
  };
}

/** Codes of a call that nobody answered, whose server does not lead, or whose connection broke. */
const PASSING: ReadonlySet<number> = new Set([
  status.UNAVAILABLE,
  status.DEADLINE_EXCEEDED,
  status.CANCELLED,
  status.INTERNAL,
]);

/** Returns whether another try may succeed. A failure that the operator itself reports, by its code, may not. */
function isPassing({ code, metadata }: ServiceError): boolean {
  return PASSING.has(code) && metadata?.get(CODE_KEY).length === 0;
}
