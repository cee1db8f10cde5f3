import { setTimeout as delay } from 'node:timers/promises';
import { createBell } from '@semblance/common/async/bell';
import { describeError } from '@semblance/common/errors';
import { jobRecord } from '@semblance/common/job-record';
import type { Logger } from '@semblance/common/logging';
import type { EventBus } from '@semblance/events/bus';
import { jobSubject, parseJobEvent } from '@semblance/events/jobs';
import type { JobView } from '../jobs/job-view.ts';
import type { Database } from '../storage/database.ts';
import { type Claimed, createDeliveries, type Due, deliveryIdOf } from './deliveries.ts';
import { createRoom, PER_ORIGIN, type Stay } from './room.ts';
import type { Sender } from './sender.ts';
import { signatureHeaders } from './signature.ts';

export interface WebhookWorkerOptions {
  readonly database: Database;
  readonly events: EventBus;
  readonly sender: Sender;
  readonly view: JobView;
  readonly logger: Logger;
  readonly pollMs?: number;
  /** Pause after the n-th failed attempt. */
  readonly backoffMs?: (attempt: number) => number;
  readonly onAttempt?: (
    event: string,
    answer: { status: number | undefined; error: string | undefined },
  ) => void;
}

/** Longer than the sender's limit: an expired lease belonged to a dead process. */
const LEASE_SECONDS = 30;
/** Most that one scan of the table finds, and most that one claim takes of it. */
const POLLED = 1_000;
const CLAIMED = 128;
/** Time for which a scan is valid, in ms; after that something more urgent may be due. */
const LOOK_MS = 250;
const MIN_PAUSE_MS = 5;

/** Returns 7.5 s × 3ⁿ⁻¹, ± 10 %: the sixth attempt is about fifteen minutes after the first. */
export function webhookBackoff(attempt: number): number {
  return 7_500 * 3 ** (attempt - 1) * (0.9 + Math.random() * 0.2);
}

/**
 * Delivers webhooks. The event of a job's end starts its delivery at once; a poll of the table finds what is due
 * again, and what no event reported. The table is the truth: an event may come twice, late or never.
 */
export function createWebhookWorker(options: WebhookWorkerOptions) {
  const { database, events, sender, view, logger, pollMs = 1_000, backoffMs = webhookBackoff } = options;
  const deliveries = createDeliveries(database, LEASE_SECONDS);
  const room = createRoom();
  const running = new Set<Promise<void>>();
  const bell = createBell();
  /** A due delivery may have been left for the poll. */
  let behind = true;
  let ending = false;
  /** Due deliveries of the latest scan that have not been claimed since. */
  let due: readonly Due[] = [];

  async function attempt(delivery: Claimed, stay: Stay): Promise<void> {
    const { event, id } = delivery;
    try {
      const at = new Date();
      const { body, headers } = messageOf(delivery, await dataOf(delivery), at);
      stay.begin();
      const answer = await sender.send(delivery.url, body, headers);
      leave(stay);
      // The end of this process cut it off, which is no fault of the receiver, so another process makes the
      // attempt.
      if (ending && answer.status === undefined) return void (await deliveries.release(id));
      options.onAttempt?.(event, answer);
      await deliveries.record({ delivery, at, answer, pauseMs: backoffMs(delivery.attempts + 1) });
    } catch (error) {
      // The attempt was not recorded and is repeated when the lease expires.
      logger.warn({ delivery: id }, `cannot record a delivery: ${describeError(error)}`);
    } finally {
      leave(stay);
    }
  }

  async function dataOf({ about, linkSeconds }: Claimed): Promise<unknown> {
    if ('data' in about) return about.data;
    const { job } = about;
    // The key that submitted the job reads the same record, to the byte.
    return jobRecord(await view.show(job, linkSeconds, job.keyId ?? undefined));
  }

  function leave(stay: Stay) {
    stay.leave();
    if (behind) bell.ring();
  }

  function begin(delivery: Claimed, stay: Stay): void {
    const work = attempt(delivery, stay).finally(() => running.delete(work));
    running.add(work);
  }

  async function onEvent(data: unknown): Promise<void> {
    let jobId: string;
    try {
      jobId = parseJobEvent(data).job_id;
    } catch (error) {
      logger.warn(`skipping an event: ${describeError(error)}`);
      return;
    }
    // The poll checks for room before it claims anything.
    if (room.crowded()) {
      behind = true;
      return;
    }
    // The event has done its part when the delivery is claimed; if this process dies, the poll tries it again.
    const delivery = await deliveries.claimOne(deliveryIdOf(jobId));
    if (!delivery) return;
    const { id, origin, accountId } = delivery;
    if (room.admits(origin, accountId)) return begin(delivery, room.enter(origin, accountId));
    // A slow origin has room again at the next poll.
    if (room.standing(origin) !== 'slow') behind = true;
    await deliveries.release(id);
  }

  /** Claims as many due deliveries as there is room for; returns whether there were any. */
  async function takeDue(): Promise<boolean> {
    const stays = new Map<string, Stay>();
    due = due.filter(({ id, origin, accountId }) => {
      if (stays.size >= CLAIMED || !room.admits(origin, accountId)) return true;
      stays.set(id, room.enter(origin, accountId));
      return false;
    });
    const any = stays.size > 0;
    try {
      for (const delivery of await deliveries.claim([...stays.keys()])) {
        begin(delivery, stays.get(delivery.id) as Stay);
        stays.delete(delivery.id);
      }
    } finally {
      for (const stay of stays.values()) stay.leave();
    }
    return any;
  }

  async function poll(signal: AbortSignal): Promise<void> {
    let lookedAt = Number.NEGATIVE_INFINITY;
    let lookMs = 0;
    while (!signal.aborted) {
      try {
        const any = await takeDue();
        const age = performance.now() - lookedAt;
        // One scan of the table serves many claims, and scans take at most a fifth of the time.
        if (age >= LOOK_MS || (!any && age >= 4 * lookMs)) {
          behind = false;
          lookedAt = performance.now();
          due = await deliveries.findDue(room.closed(), PER_ORIGIN, POLLED);
          lookMs = performance.now() - lookedAt;
          if (await takeDue()) behind = true;
        }
      } catch (error) {
        logger.debug(`cannot poll deliveries: ${describeError(error)}`);
      }
      // While there is more work than room, every free place asks for more.
      await delay(MIN_PAUSE_MS);
      if (!signal.aborted) await bell.wait(pollMs);
    }
  }

  return {
    /** Works until aborted; then gives running attempts a moment to end, and cuts the rest. */
    async run(signal: AbortSignal): Promise<void> {
      signal.addEventListener(
        'abort',
        () => {
          ending = true;
          bell.ring();
          setTimeout(() => void sender.close(), 2_000).unref();
        },
        { once: true },
      );
      await Promise.all([
        poll(signal),
        events.consume({
          durable: 'webhooks',
          subjects: [jobSubject('*', 'succeeded'), jobSubject('*', 'failed')],
          handler: ({ data }) => onEvent(data),
          concurrency: 256,
          signal,
        }),
      ]);
      await Promise.allSettled(running);
      await sender.close();
    },
  };
}

/** Returns the body and the signed headers of an attempt. */
function messageOf({ event, id, secrets }: Claimed, data: unknown, at: Date) {
  const body = JSON.stringify({ event, sent_at: at.toISOString(), delivery_id: id, data });
  const unixSeconds = Math.floor(at.getTime() / 1000);
  const headers = {
    'content-type': 'application/json',
    'user-agent': 'Semblance-Webhooks/1',
    'service-event': event,
    'service-delivery': id,
    ...signatureHeaders(secrets, { deliveryId: id, unixSeconds, body }),
  };
  return { body, headers };
}
