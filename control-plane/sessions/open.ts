import { ApiError, describeError } from '@semblance/common/errors';
import { isKubeError, type KubeClient } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import type { Voice } from '@semblance/common/voices/voice';
import { LIVESESSION_RESOURCE } from '@semblance/crds/gen/livesessions';
import type { AllocateResponse } from '@semblance/proto/semblance/operator/v1/operator';
import { createBatcher } from '../storage/batcher.ts';
import type { Database } from '../storage/database.ts';
import { sqlState } from '../storage/sql.ts';
import type { AllocateCall, Allocator } from './allocator.ts';
import { type OpenOutcome, orderOf, refusal, type SessionOrder, type SessionWish, sha256 } from './order.ts';

export interface OpenedSession {
  readonly sessionId: string;
  /** Shown only now. */
  readonly token: string;
  readonly maxSeconds: number;
  readonly maxCostMicros: bigint;
}

export interface OpenerOptions {
  readonly database: Database;
  /** Voices from files, by id. */
  readonly voices: ReadonlyMap<string, Voice>;
  readonly allocator: Pick<Allocator, 'allocate'>;
  readonly kube: Pick<KubeClient, 'delete'>;
  readonly namespace: string;
  readonly logger: Logger;
  /** Called for every opening with `opened` or the reason of the refusal. */
  readonly onOutcome?: (outcome: string, capability: string) => void;
  /** Called with the operator's time, in seconds. */
  readonly onAllocated?: (seconds: number, outcome: string) => void;
}

export interface OpenCall extends AllocateCall {
  readonly requestId?: string | undefined;
}

interface Slot extends AllocateResponse {
  readonly sessionId: string;
}

/**
 * Opens sessions: one transaction that reserves the block, a warm slot from the operator, one transaction that
 * records it. Openings that wait for the database at the same time share its transactions. A process that dies in
 * between leaves an opening that expires by itself (see expiry); on a failure block and slot are released at once.
 */
export function createOpener(options: OpenerOptions) {
  const { database, voices, allocator, kube, namespace, logger, onOutcome, onAllocated } = options;
  const { sql, deadlineMs } = database;
  const divisible = (error: unknown) => sqlState(error) !== undefined;

  const reserve = createBatcher<SessionOrder, OpenOutcome>({
    deadlineMs,
    concurrency: 2,
    maxSize: 32,
    divisible,
    run: (batch) => sql<OpenOutcome[]>`
      select (result).* from open_sessions(${sql.json(batch.map(requestOf))}::jsonb) order by place`,
  });
  const holdSlot = createBatcher<Slot, boolean>({
    deadlineMs,
    concurrency: 2,
    maxSize: 64,
    divisible,
    async run(batch) {
      const slots = batch.map(({ sessionId: session, ...slot }) => ({ session, ...slot }));
      const rows = await sql<{ opened: boolean }[]>`
        select opened from sessions_opened(${sql.json(slots)}::jsonb) order by place`;
      return rows.map(({ opened }) => opened);
    },
  });
  const refuse = createBatcher<string, undefined>({
    deadlineMs,
    concurrency: 2,
    maxSize: 64,
    divisible,
    async run(batch) {
      await sql`select refuse_sessions(${batch}::text[])`;
      return batch.map(() => undefined);
    },
  });

  /** @throws ApiError capacity_unavailable, capacity_warming, internal_error */
  async function hold(order: SessionOrder, admitted: OpenOutcome, call: OpenCall) {
    const { sessionId, wish, settings, inputs, ticket } = order;
    const { signal, traceparent, requestId } = call;
    const began = performance.now();
    let slot: AllocateResponse | undefined;
    try {
      slot = await allocator.allocate(
        {
          sessionId,
          capability: wish.capability,
          account: wish.accountId,
          maxDurationSeconds: admitted.max_seconds ?? 0,
          connectDeadlineSeconds: admitted.connect_seconds ?? 0,
          settings: { ...settings },
          inputs: Object.fromEntries(inputs.map(({ role, key }) => [role, key])),
          ticketSha256: sha256(ticket),
          requestId: requestId ?? '',
        },
        { signal, traceparent },
      );
      onAllocated?.((performance.now() - began) / 1000, 'ok');
      // Nobody would have its token.
      signal.throwIfAborted();
      if (!(await holdSlot.submit({ sessionId, ...slot })))
        throw new ApiError('capacity_unavailable', 'The session could not be opened in time. Try again.');
    } catch (error) {
      if (!slot) onAllocated?.((performance.now() - began) / 1000, codeOf(error));
      await withdraw(sessionId, slot !== undefined || codeOf(error) === 'internal_error');
      throw error;
    }
  }

  /** Releases block and slot. The sweeps repeat what fails here. */
  async function withdraw(sessionId: string, mayHaveSlot: boolean): Promise<void> {
    await refuse
      .submit(sessionId)
      .catch((error) =>
        logger.warn(
          { sessionId },
          `cannot release the block of a refused session, the sweep will: ${describeError(error)}`,
        ),
      );
    if (!mayHaveSlot) return;
    kube.delete(LIVESESSION_RESOURCE, { name: sessionId, namespace }).catch((error: unknown) => {
      if (!isKubeError(error, 'not_found'))
        logger.warn({ sessionId }, `cannot free a slot now, the sweep will: ${describeError(error)}`);
    });
  }

  return {
    /**
     * @throws ApiError invalid_input, capability_unavailable, at_capacity, insufficient_balance, capacity_unavailable,
     * capacity_warming, internal_error
     */
    async open(wish: SessionWish, call: OpenCall): Promise<OpenedSession> {
      const order = await orderOf({ files: voices, sql: database.fast }, wish);
      const admitted = await reserve.submit(order);
      const { outcome, max_seconds: maxSeconds, max_cost_micros: maxCostMicros } = admitted;
      if (outcome !== 'reserved' || maxSeconds === null || maxCostMicros === null) {
        onOutcome?.(admitted.detail?.startsWith('pause') ? 'pause' : outcome, wish.capability);
        throw refusal(admitted, wish.capability);
      }
      try {
        await hold(order, admitted, call);
      } catch (error) {
        onOutcome?.(codeOf(error), wish.capability);
        throw error;
      }
      onOutcome?.('opened', wish.capability);
      return { sessionId: order.sessionId, token: order.token, maxSeconds, maxCostMicros };
    },
  };
}

export type Opener = ReturnType<typeof createOpener>;

function requestOf({ sessionId, wish, token, ticket, inputs }: SessionOrder) {
  return {
    session: sessionId,
    account: wish.accountId,
    capability: wish.capability,
    inputs,
    minutes: wish.durationMinutes,
    token_sha256: sha256(token).toString('hex'),
    ticket: ticket.toString('hex'),
    key_id: wish.keyId ?? null,
  };
}

function codeOf(error: unknown): string {
  return error instanceof ApiError ? error.code : 'internal_error';
}
