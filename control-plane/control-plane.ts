import type { ListenAddress } from '@semblance/common/config';
import { describeError } from '@semblance/common/errors';
import { startGrpcServer } from '@semblance/common/grpc/server';
import { expiryCheck, observeExpiry } from '@semblance/common/grpc/tls/expiry';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import type { KubeClient, Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { loadVoices } from '@semblance/common/voices/load-voices';
import type { Voice } from '@semblance/common/voices/voice';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { EventBus } from '@semblance/events/bus';
import { type JobStatus, jobEvent } from '@semblance/events/jobs';
import type { ObjectStore } from '@semblance/objects/store';
import type { Registry } from 'prom-client';
import { createGate } from './accounts/gate.ts';
import { createEnginesSeen } from './agents/engines-seen.ts';
import { runChores } from './chores/chores.ts';
import { keepHouse } from './chores/housekeeping.ts';
import { type Canceller, createCanceller } from './jobs/cancel.ts';
import { createJobView } from './jobs/job-view.ts';
import type { RenderJobOrder } from './jobs/render-jobs.ts';
import { createRenderJobPayer } from './jobs/renderjob-payer.ts';
import { createRetractor } from './jobs/retract.ts';
import { createSettler, type SettledFacts } from './jobs/settle.ts';
import { createSubmit } from './jobs/submit.ts';
import { traceSender, traceSettler } from './jobs/traces.ts';
import { createJobWatcher } from './jobs/watcher.ts';
import { createRemovals } from './media/removals.ts';
import { createSignedLinks } from './media/signed-links.ts';
import { createMetrics } from './metrics.ts';
import { watchCrowd } from './relay/crowd.ts';
import { createOutbox, type Outbox } from './relay/outbox.ts';
import { createAdminService } from './rpc/admin-service.ts';
import { createControlService } from './rpc/control-service.ts';
import { createJobCalls } from './rpc/job-calls.ts';
import { createMediaCalls } from './rpc/media-calls.ts';
import { createMessageStreams, type MessageStreamsOptions } from './rpc/message-streams.ts';
import { createSessionCalls } from './rpc/session-calls.ts';
import { readTogether, submitTogether } from './rpc/together.ts';
import { createSessions, type SessionTiming } from './sessions/sessions.ts';
import { type DatabaseOptions, openDatabase } from './storage/database.ts';
import { migrateWhenReachable } from './storage/migrate.ts';
import { createUploads } from './uploads/uploads.ts';
import { createPreviewChore, PREVIEW_LOOK_MS, type PreviewPace } from './voices/previews.ts';
import { createReflectors } from './watch/reflectors.ts';
import { createWatchHub } from './watch/watch-hub.ts';
import { createWatchStreams } from './watch/watch-stream.ts';
import { createAddressGuard } from './webhooks/addresses.ts';
import { createSender } from './webhooks/sender.ts';
import { createWebhookWorker } from './webhooks/worker.ts';

export interface ControlPlaneOptions {
  readonly listen: ListenAddress;
  readonly postgresUrl: string;
  /** Overrides of the database limits. */
  readonly database?: Omit<DatabaseOptions, 'url'> | undefined;
  readonly events: EventBus;
  readonly kube: KubeClient;
  readonly namespace: string;
  readonly objects: ObjectStore;
  readonly adminToken: string;
  /** Required from callers of ControlService; the admin service has a token of its own. */
  readonly internalToken?: string | undefined;
  /** Undefined: gRPC is not encrypted. */
  readonly tls?: Tls | undefined;
  readonly logger: Logger;
  readonly registry: Registry;
  /** Date of charges and balances. Default: the database's clock. */
  readonly now?: () => Date;
  readonly jobSweepMs?: number;
  /** Pause between two rounds of housekeeping. */
  readonly housekeepingMs?: number | undefined;
  /** Voices from files, by id. Default: the shipped ones. */
  readonly voices?: ReadonlyMap<string, Voice> | undefined;
  readonly previews?: PreviewPace | undefined;
  readonly webhooks?: WebhookSettings;
  readonly sessions?: SessionTiming | undefined;
}

export interface WebhookSettings {
  /** Non-public ranges to which webhooks may go, such as `10.1.0.0/16`. */
  readonly allow?: readonly string[];
  readonly timeoutMs?: number;
  readonly pollMs?: number;
  readonly backoffMs?: (attempt: number) => number;
}

export interface ControlPlane {
  readonly port: number;
  /** Named checks for `/readyz`; each throws a reason. */
  readonly ready: Readonly<Record<string, () => unknown>>;
  /** Rejects when the database has a schema that this release must not touch. */
  readonly migrated: Promise<void>;
  close(): Promise<void>;
}

type Contexts = { renderjob: RenderJobOrder; event: undefined };

/**
 * Starts all parts of the control plane. It is up at once, whatever is unreachable: calls fail until the database
 * answers, and the loops keep trying.
 */
export async function startControlPlane(options: ControlPlaneOptions): Promise<ControlPlane> {
  const { logger, events, kube, namespace, objects, registry, now } = options;
  const stop = new AbortController();
  const { signal } = stop;
  const voices = options.voices ?? (await loadVoices());
  const database = openDatabase({ ...options.database, url: options.postgresUrl });
  const metrics = createMetrics(registry, database);
  observeExpiry(registry, options.tls);
  const { reflector, agents, pools } = createReflectors({ kube, namespace, logger, registry });
  const enginesSeen = createEnginesSeen({ database, reflector: agents, pools, logger });

  const outbox: Outbox<Contexts> = createOutbox<Contexts>({
    database,
    logger,
    lanes: {
      renderjob: {
        // While submits queue for the database, work that can wait is slowed down.
        concurrency: () => (submits.crowded() ? 1 : 16),
        handle: (task, order) => payRenderJob(task.jobId, order),
      },
      event: {
        concurrency: () => 128,
        handle: (task) => events.publish(jobEvent(task.jobId, task.status as JobStatus, task.createdAt)),
      },
    },
    onPaid: metrics.paid,
  });
  const owe = (jobId: string, status: string, id: bigint) => {
    outbox.handOver('event', { id, jobId, status, createdAt: new Date() });
    watchHub.nudge(jobId);
  };
  const onSettled = (facts: SettledFacts) => {
    metrics.settled(facts);
    owe(facts.jobId, facts.status, facts.eventTask);
  };
  const settler = traceSettler(
    createSettler({
      database,
      objects,
      logger,
      now,
      onSettled,
    }),
  );
  const canceller: Canceller = createCanceller({
    database,
    client: kube,
    reflector,
    settler,
    namespace,
    logger,
    sweepEveryMs: options.jobSweepMs,
    onSettled,
  });

  const retractor = createRetractor({ database, canceller, logger });
  const payRenderJob = createRenderJobPayer({ database, kube, canceller, settler, namespace, logger });

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
  const removals = createRemovals({ database, objects, logger, onDeleted: metrics.mediaDeleted });
  const submits = watchCrowd(
    createSubmit({
      database,
      webhooks: true,
      onOutcome: metrics.submitted,
      onUnknown: retractor.retract,
      onCommitted({ jobId, renderJobTask, eventTask, submission }) {
        const { accountId, capability, inputs, parameters } = submission;
        const createdAt = new Date();
        const order = { jobId, accountId, capability, inputs, parameters };
        outbox.handOver('renderjob', { id: renderJobTask, jobId, status: null, createdAt }, order);
        outbox.handOver('event', { id: eventTask, jobId, status: 'queued', createdAt });
      },
    }),
    { most: 4, lingerMs: 100 },
  );
  const view = createJobView({ objects });
  const watchHub = createWatchHub({ database, view, events, reflector, namespace, logger, registry });
  const gate = createGate(database);
  const watchStreams = createWatchStreams({ gate, database, hub: watchHub, logger });
  const streamsOf = <Request, Result>(
    method: string,
    answer: MessageStreamsOptions<Request, Result>['answer'],
  ) => createMessageStreams({ method, answer, logger, onAnswered: metrics.answered(method) });
  const readStreams = streamsOf('ReadJobs', readTogether(gate, view));
  const submitStreams = streamsOf('SubmitJobs', submitTogether({ gate, submit: submits.run, logger }));
  const { allow = [], timeoutMs, ...pace } = options.webhooks ?? {};
  const webhooks = createWebhookWorker({
    database,
    events,
    sender: traceSender(createSender({ guard: createAddressGuard(allow), timeoutMs }), database.sql),
    view,
    logger,
    onAttempt: metrics.webhook,
    ...pace,
  });
  const sessions = createSessions({
    database,
    voices,
    kube,
    namespace,
    logger,
    registry,
    now,
    internalToken: options.internalToken,
    tls: options.tls,
    metrics: metrics.sessions,
    ...options.sessions,
  });
  const control = createControlService({
    logger,
    database,
    gate,
    readJobs: readStreams.handle,
    submitJobs: submitStreams.handle,
    uploads,
    submit: submits.run,
    view,
    jobCalls: createJobCalls({ database, gate, view, canceller, webhooks: true }),
    mediaCalls: createMediaCalls({ database, gate, removals }),
    sessionCalls: createSessionCalls({
      database,
      gate,
      ...sessions,
      voices,
      links: createSignedLinks({ objects }),
    }),
    metrics,
    watchJobs: watchStreams.handle,
    now,
  });
  const admin = createAdminService({
    logger,
    database,
    metrics,
    removals,
    voices,
    token: options.adminToken,
    endSession: sessions.nudge,
  });
  const server = await startGrpcServer({
    listen: options.listen,
    services: [{ ...control, token: options.internalToken }, admin],
    tls: options.tls,
  });

  const previews = createPreviewChore({
    database,
    objects,
    voices,
    agents,
    logger,
    internalToken: options.internalToken,
    tls: options.tls,
    pace: options.previews,
  });

  let ending = false;
  let unready: string | undefined = 'the database has not answered yet';
  const migrated = migrateWhenReachable(options.postgresUrl, logger, signal, (why) => {
    unready = why;
  }).then(() => {
    unready = undefined;
  });
  const work = migrated.then(() =>
    Promise.all([
      outbox.run(signal),
      canceller.run(signal),
      retractor.run(signal),
      watcher.run(signal),
      watchHub.run(signal),
      reflector.run(signal),
      agents.run(signal),
      pools.run(signal),
      enginesSeen.run(signal),
      sessions.run(signal),
      runChores(
        {
          database,
          logger,
          chores: [previews],
          lookEveryMs: options.previews?.everyMs ?? PREVIEW_LOOK_MS,
        },
        signal,
      ),
      webhooks.run(signal),
      keepHouse(
        {
          database,
          objects,
          uploads,
          removals,
          reflector,
          logger,
          everyMs: options.housekeepingMs,
        },
        signal,
      ),
    ]),
  );
  work.catch(() => {});

  return {
    port: server.port,
    migrated,
    ready: {
      postgres: async () => {
        if (unready !== undefined) throw new Error(`the schema is not ready: ${unready}`);
        // A standby refuses this like every write.
        await database.fast`select 1 from settings for key share`;
      },
      nats: eventsReadiness(events),
      kubernetes: () => checkReflector(reflector),
      ...expiryCheck(options.tls),
      ending() {
        if (ending) throw new Error('the control plane is ending');
      },
    },
    async close() {
      ending = true;
      watchStreams.end();
      readStreams.end();
      submitStreams.end();
      await server.close();
      stop.abort(new Error('the control plane ends'));
      await work.catch(() => {});
      sessions.close();
      await database.close();
    },
  };
}

/** The bus must have been reached once. Later, jobs are accepted and rendered without it, and webhooks wait. */
function eventsReadiness(events: Pick<EventBus, 'check'>): () => string | undefined {
  let reached = false;
  return () => {
    try {
      events.check();
      reached = true;
      return undefined;
    } catch (error) {
      if (!reached) throw error;
      return `away, and events wait in the database: ${describeError(error)}`;
    }
  };
}

function checkReflector(reflector: Reflector<RenderJob>): void {
  if (!reflector.hasSynced || reflector.healthySince === undefined)
    throw new Error('RenderJobs are not being watched: the Kubernetes API does not answer');
}
