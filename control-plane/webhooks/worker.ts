import { setTimeout as delay } from 'node:timers/promises';
import { describeError } from '#common/errors.ts';
import { type EventBus, RedeliverLater } from '#common/events/bus.ts';
import { jobSubject, parseJobEvent } from '#common/events/jobs.ts';
import { jobRecord } from '#common/job-record.ts';
import type { Logger } from '#common/logging.ts';
import type { JobView } from '../jobs/job-view.ts';
import type { Database } from '../storage/database.ts';
import { type Claimed, createDeliveries } from './deliveries.ts';
import type { Sender } from './sender.ts';
import { signatureHeader } from './signature.ts';

export interface WebhookWorkerOptions {
  readonly database: Database;
  readonly events: EventBus;
  readonly sender: Sender;
  readonly view: JobView;
  readonly logger: Logger;
  /** Deliveries tried at once. Default 256. */
  readonly concurrency?: number;
  /** Deliveries tried at once at one origin, so that one that hangs leaves room for all others. Default 16. */
  readonly perOrigin?: number;
  readonly pollMs?: number;
  /** Pause after the n-th failed attempt. */
  readonly backoffMs?: (attempt: number) => number;
  readonly onAttempt?: (
    event: string,
    answer: { status: number | undefined; error: string | undefined },
  ) => void;
}

/** Longer than the sender lets an attempt take: a lease that ran out belonged to a process that died. */
const LEASE_SECONDS = 30;

/** 7.5 s × 3ⁿ⁻¹, a tenth more or less: the sixth attempt is about fifteen minutes after the first. */
export function webhookBackoff(attempt: number, random = Math.random()): number {
  return 7_500 * 3 ** (attempt - 1) * (0.9 + random * 0.2);
}

/**
 * Delivers webhooks. The event that a job ended has its delivery tried at once; a poll of the table finds what is due
 * again, and whatever an event did not tell of. The table is the truth: an event may come twice, late or never.
 */
export function createWebhookWorker(options: WebhookWorkerOptions) {
  const {
    database,
    events,
    sender,
    view,
    logger,
    concurrency = 256,
    perOrigin = 16,
    pollMs = 1_000,
  } = options;
  const { backoffMs = (attempt: number) => webhookBackoff(attempt) } = options;
  const deliveries = createDeliveries(database, LEASE_SECONDS);
  const busy = new Map<string, number>();
  const running = new Set<Promise<void>>();

  const isFull = (origin: string) => (busy.get(origin) ?? 0) >= perOrigin;

  let ending = false;

  async function attempt(delivery: Claimed): Promise<void> {
    const { origin, event, id } = delivery;
    busy.set(origin, (busy.get(origin) ?? 0) + 1);
    try {
      const at = new Date();
      const data = jobRecord(await view.show(delivery.job, delivery.linkSeconds));
      const body = JSON.stringify({ event, sent_at: at.toISOString(), delivery_id: id, data });
      const headers: Record<string, string> = {
        'content-type': 'application/json',
        'user-agent': 'Semblance-Webhooks/1',
        'service-event': event,
        'service-delivery': id,
      };
      if (delivery.secrets.length > 0)
        headers['service-signature'] = signatureHeader(
          delivery.secrets,
          Math.floor(at.getTime() / 1000),
          body,
        );
      const answer = await sender.send(delivery.url, body, headers);
      // Cut off by the end of this process, which is no fault of the receiver: another process makes the attempt.
      if (ending && answer.status === undefined) return await deliveries.release([id]);
      options.onAttempt?.(event, answer);
      await deliveries.record({ delivery, at, answer, pauseMs: backoffMs(delivery.attempts + 1) });
    } catch (error) {
      // The attempt was not recorded: when the lease runs out it is made again.
      logger.warn({ delivery: id }, `a delivery was not recorded: ${describeError(error)}`);
    } finally {
      const left = (busy.get(origin) ?? 1) - 1;
      if (left > 0) busy.set(origin, left);
      else busy.delete(origin);
    }
  }

  function start(delivery: Claimed): Promise<void> {
    const work = attempt(delivery).finally(() => running.delete(work));
    running.add(work);
    return work;
  }

  async function onEvent(data: unknown): Promise<void> {
    let jobId: string;
    try {
      jobId = parseJobEvent(data).job_id;
    } catch (error) {
      logger.warn(`an event is passed over: ${describeError(error)}`);
      return;
    }
    if (running.size >= concurrency) throw new RedeliverLater(200);
    const delivery = await deliveries.claimOf(jobId);
    if (!delivery) return;
    // The event has done its part once the delivery is claimed; should this process die, the poll tries it again.
    if (isFull(delivery.origin)) await deliveries.release([delivery.id]);
    else void start(delivery);
  }

  async function poll(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      let claimed = 0;
      try {
        const full = [...busy.keys()].filter(isFull);
        const due =
          running.size < concurrency ? await deliveries.claimDue(full, concurrency - running.size) : [];
        const beyond: string[] = [];
        for (const delivery of due) {
          if (isFull(delivery.origin)) beyond.push(delivery.id);
          else {
            void start(delivery);
            claimed++;
          }
        }
        if (beyond.length > 0) await deliveries.release(beyond);
      } catch (error) {
        logger.debug(`cannot poll deliveries: ${describeError(error)}`);
      }
      await (claimed > 0
        ? Promise.race([...running, delay(pollMs)])
        : delay(pollMs, undefined, { signal }).catch(() => {}));
    }
  }

  return {
    /** Works until aborted; then gives the attempts under way a moment to end, and cuts the rest. */
    async run(signal: AbortSignal): Promise<void> {
      signal.addEventListener(
        'abort',
        () => {
          ending = true;
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
          concurrency,
          signal,
        }),
      ]);
      await Promise.allSettled(running);
      await sender.close();
    },
  };
}
