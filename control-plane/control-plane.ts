import { setTimeout as delay } from 'node:timers/promises';
import type { Registry } from 'prom-client';
import type { ListenAddress } from '#common/config.ts';
import { describeError } from '#common/errors.ts';
import type { EventBus } from '#common/events/bus.ts';
import { type JobStatus, jobEvent } from '#common/events/jobs.ts';
import { startGrpcServer } from '#common/grpc/server.ts';
import { createReflector, type KubeClient, type Reflector } from '#common/kube/index.ts';
import type { Logger } from '#common/logging.ts';
import type { ObjectStore } from '#common/objects/store.ts';
import { RENDERJOB_RESOURCE, type RenderJob } from '#crds/gen/renderjobs.ts';
import { createGate } from './accounts/gate.ts';
import { createJobView } from './jobs/job-view.ts';
import {
  ensureRenderJob,
  type RenderJobOrder,
  RenderJobRefusedError,
  readOrder,
  readRenderJobLimits,
  renderJobFor,
} from './jobs/render-jobs.ts';
import { createSettler } from './jobs/settle.ts';
import { createSubmit } from './jobs/submit.ts';
import { createJobWatcher } from './jobs/watcher.ts';
import { createMetrics } from './metrics.ts';
import { createOutbox, type Outbox } from './relay/outbox.ts';
import { createAdminService } from './rpc/admin-service.ts';
import { createControlService } from './rpc/control-service.ts';
import { openDatabase } from './storage/database.ts';
import { migrateWhenReachable } from './storage/migrate.ts';
import { createUploads, type Uploads } from './uploads/uploads.ts';
import { createAddressGuard } from './webhooks/addresses.ts';
import { createSender } from './webhooks/sender.ts';
import { createWebhookWorker } from './webhooks/worker.ts';

export interface ControlPlaneOptions {
  readonly listen: ListenAddress;
  readonly postgresUrl: string;
  readonly events: EventBus;
  readonly kube: KubeClient;
  readonly namespace: string;
  readonly objects: ObjectStore;
  readonly adminToken: string;
  /** Asked of whoever calls ControlService; the admin service has a token of its own. */
  readonly internalToken?: string | undefined;
  readonly logger: Logger;
  readonly registry: Registry;
  /** What charges and balances are dated by. Default: the database's clock. */
  readonly now?: () => Date;
  readonly jobSweepMs?: number;
  readonly webhooks?: WebhookSettings;
}

export interface WebhookSettings {
  /** Ranges of addresses that are not public and may be sent to all the same, such as `10.1.0.0/16`. */
  readonly allow?: readonly string[];
  readonly timeoutMs?: number;
  readonly pollMs?: number;
  readonly backoffMs?: (attempt: number) => number;
}

export interface ControlPlane {
  readonly port: number;
  /** Named checks for `/readyz`; each throws a reason. */
  readonly ready: Readonly<Record<string, () => void | Promise<void>>>;
  /** Rejects when the database has a schema this release must not touch. */
  readonly migrated: Promise<void>;
  close(): Promise<void>;
}

type Contexts = { renderjob: RenderJobOrder; event: undefined };

/**
 * Starts everything the control plane does. It is up at once, whatever is away: calls fail until the database answers,
 * and the loops behind them go on trying.
 */
export async function startControlPlane(options: ControlPlaneOptions): Promise<ControlPlane> {
  const { logger, events, kube, namespace, objects, registry, now } = options;
  const stop = new AbortController();
  const { signal } = stop;
  const database = openDatabase({ url: options.postgresUrl });
  const metrics = createMetrics(registry, database);
  const reflector = createReflector<RenderJob>({
    client: kube,
    resource: RENDERJOB_RESOURCE,
    namespace,
    logger,
    registry,
  });

  const outbox: Outbox<Contexts> = createOutbox<Contexts>({
    database,
    logger,
    lanes: {
      renderjob: {
        concurrency: 16,
        handle: (task, order) => payRenderJob(task.jobId, order),
      },
      event: {
        concurrency: 128,
        handle: (task) => events.publish(jobEvent(task.jobId, task.status as JobStatus, task.createdAt)),
      },
    },
    onPaid: metrics.paid,
  });
  const owe = (jobId: string, status: string, id: bigint) =>
    outbox.handOver('event', { id, jobId, status, createdAt: new Date() });
  const settler = createSettler({
    database,
    objects,
    logger,
    now,
    onSettled(facts) {
      metrics.settled(facts);
      owe(facts.jobId, facts.status, facts.eventTask);
    },
  });

  const limits = remember(() => readRenderJobLimits(database.fast), 1_000);

  async function payRenderJob(jobId: string, handed: RenderJobOrder | undefined) {
    const order = handed ?? (await readOrder(database.sql, jobId));
    if (!order) return;
    try {
      const wanted = renderJobFor(order, await limits(), namespace);
      const created = await ensureRenderJob(kube, wanted);
      reflector.note(created);
      return { renderJobUid: created.metadata.uid };
    } catch (error) {
      if (!(error instanceof RenderJobRefusedError)) throw error;
      logger.error({ err: error, jobId }, `a job cannot be rendered: ${error.message}`);
      await settler.fail(jobId, undefined, {
        code: 'processing_failed',
        message: 'The job could not be started.',
        reason: 'render_failed',
      });
      return;
    }
  }

  const watcher = createJobWatcher({
    database,
    client: kube,
    reflector,
    settler,
    namespace,
    logger,
    sweepEveryMs: options.jobSweepMs,
    onBegun: ({ jobId, eventTask }) => owe(jobId, 'processing', eventTask),
  });
  const uploads = createUploads({ database, objects, logger });
  const submit = createSubmit({
    database,
    webhooks: true,
    onOutcome: metrics.submitted,
    onCommitted({ jobId, renderJobTask, eventTask, submission }) {
      const { accountId, capability, inputs, parameters } = submission;
      const createdAt = new Date();
      const order = { jobId, accountId, capability, inputs, parameters };
      outbox.handOver('renderjob', { id: renderJobTask, jobId, status: null, createdAt }, order);
      outbox.handOver('event', { id: eventTask, jobId, status: 'queued', createdAt });
    },
  });
  const view = createJobView({ objects });
  const { allow = [], timeoutMs, ...pace } = options.webhooks ?? {};
  const webhooks = createWebhookWorker({
    database,
    events,
    sender: createSender({ guard: createAddressGuard(allow), timeoutMs }),
    view,
    logger,
    onAttempt: metrics.webhook,
    ...pace,
  });
  const control = createControlService({
    logger,
    database,
    gate: createGate(database),
    uploads,
    submit,
    view,
    metrics,
    now,
  });
  const admin = createAdminService({ logger, database, token: options.adminToken, metrics });
  const server = await startGrpcServer({
    listen: options.listen,
    services: [{ ...control, token: options.internalToken }, admin],
  });

  let schema: 'waiting' | 'ready' = 'waiting';
  const migrated = migrateWhenReachable(options.postgresUrl, logger, signal).then(() => {
    schema = 'ready';
  });
  const work = migrated.then(() =>
    Promise.all([
      outbox.run(signal),
      watcher.run(signal),
      reflector.run(signal),
      webhooks.run(signal),
      keepHouse(database, uploads, logger, signal),
    ]),
  );
  work.catch(() => {});

  return {
    port: server.port,
    migrated,
    ready: {
      postgres: async () => {
        if (schema === 'waiting') throw new Error('the schema is not ready');
        await database.fast`select 1`;
      },
      nats: () => events.check(),
      kubernetes: () => checkReflector(reflector),
    },
    async close() {
      await server.close();
      stop.abort(new Error('the control plane ends'));
      await work.catch(() => {});
      await database.close();
    },
  };
}

function checkReflector(reflector: Reflector<RenderJob>): void {
  if (!reflector.hasSynced || reflector.healthySince === undefined)
    throw new Error('RenderJobs are not being watched: the Kubernetes API does not answer');
}

/** A reading that may be this old; a failed one is not kept. */
function remember<T>(read: () => Promise<T>, maxAgeMs: number): () => Promise<T> {
  let kept: { readonly value: Promise<T>; readonly at: number } | undefined;
  return () => {
    if (kept && performance.now() - kept.at < maxAgeMs) return kept.value;
    const value = read();
    kept = { value, at: performance.now() };
    value.catch(() => {
      kept = undefined;
    });
    return value;
  };
}

/** Removes what nobody will ask for any more. */
async function keepHouse(
  database: ReturnType<typeof openDatabase>,
  uploads: Uploads,
  logger: Logger,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      await uploads.sweep(signal);
      await database.sql`
        delete from idempotency_keys where (account_id, key) in (
          select i.account_id, i.key from idempotency_keys i cross join settings s
          where i.created_at < now() - s.idempotency_seconds * interval '1 second' limit 5000)`;
    } catch (error) {
      if (!signal.aborted) logger.warn(`housekeeping failed: ${describeError(error)}`);
    }
    await delay(60_000 * (0.75 + Math.random() / 2), undefined, { signal }).catch(() => {});
  }
}
