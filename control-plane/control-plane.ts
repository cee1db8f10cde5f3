import type { ListenAddress } from '@semblance/common/config';
import { expiryCheck, observeExpiry } from '@semblance/common/grpc/tls/expiry';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import type { KubeClient } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { loadVoices } from '@semblance/common/voices/load-voices';
import type { Voice } from '@semblance/common/voices/voice';
import type { EventBus } from '@semblance/events/bus';
import type { ObjectStore } from '@semblance/objects/store';
import type { Registry } from 'prom-client';
import { createGate } from './accounts/gate.ts';
import type { OidcSettings } from './admin-tokens/oidc.ts';
import { createCallees } from './agents/callee.ts';
import { createEnginesSeen } from './agents/engines-seen.ts';
import { createVoicesSeen } from './agents/voices-seen.ts';
import { runChores } from './chores/chores.ts';
import { keepHouse } from './chores/housekeeping.ts';
import { createFindFaces } from './faces/find-faces.ts';
import { createFramePreviewer } from './inspections/frame-previewer.ts';
import { createInspector } from './inspections/inspector.ts';
import { createJobs } from './jobs/jobs.ts';
import { slotsOn } from './jobs/slot-time.ts';
import { traceSender } from './jobs/traces.ts';
import { createRemovals } from './media/removals.ts';
import { createMetrics } from './metrics.ts';
import { readyChecks } from './ready.ts';
import { startServices } from './rpc/services.ts';
import { createSessions, type SessionTiming } from './sessions/sessions.ts';
import { type DatabaseOptions, openDatabase } from './storage/database.ts';
import { migrateWhenReachable, readMigrations } from './storage/migrate.ts';
import { createUploads } from './uploads/uploads.ts';
import { createPreviewChore, PREVIEW_LOOK_MS, type PreviewPace } from './voices/previews.ts';
import { createReflectors } from './watch/reflectors.ts';
import { createAddressGuard, type OwnRanges } from './webhooks/addresses.ts';
import { createCallbackHosts } from './webhooks/callback-hosts.ts';
import { createEndpoints } from './webhooks/endpoints.ts';
import { createSender, type SenderOptions } from './webhooks/sender.ts';
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
  /** The bootstrap token of the admin service. */
  readonly adminToken: string;
  /** Issuer whose tokens the admin service takes, too. */
  readonly oidc?: OidcSettings | undefined;
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

export interface WebhookSettings extends OwnRanges {
  readonly timeoutMs?: number;
  /** Resolves the names of receivers. Default: DNS. */
  readonly lookup?: SenderOptions['lookup'];
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
  const callees = createCallees({ kube, namespace, agents });
  const enginesSeen = createEnginesSeen({ database, reflector: agents, pools, logger });
  const voicesSeen = createVoicesSeen({ database, agents, pools, logger });

  const { allow = [], deny, timeoutMs, lookup, ...pace } = options.webhooks ?? {};
  const guard = createAddressGuard({ allow, deny });
  const callbackHosts = createCallbackHosts({ guard, lookup, allowsPrivate: allow.length > 0 });
  const jobs = createJobs({
    database,
    kube,
    reflector,
    namespace,
    objects,
    events,
    metrics,
    logger,
    registry,
    now,
    sweepEveryMs: options.jobSweepMs,
    // Created below, and asked only when a job is paid for.
    operatorReadsTexts: () => sessions.operatorReadsTexts(),
    agents: () => agents.list(),
    slotsOf: (renderJob) => slotsOn(agents.get(renderJob.status?.agent ?? '', namespace), renderJob),
    callbackHosts,
  });
  const uploads = createUploads({ database, objects, logger });
  const removals = createRemovals({ database, objects, logger, onDeleted: metrics.mediaDeleted });
  const gate = createGate(database, logger);
  const webhooks = createWebhookWorker({
    database,
    events,
    sender: traceSender(createSender({ guard, timeoutMs, lookup }), database.sql),
    view: jobs.view,
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
  const asking = {
    agents,
    checkAddress: callees.checkAddress,
    objects,
    logger,
    internalToken: options.internalToken,
    tls: options.tls,
  };
  const services = await startServices({
    options,
    database,
    metrics,
    jobs,
    uploads,
    removals,
    gate,
    sessions,
    endpoints: createEndpoints(database.sql, callbackHosts),
    voices,
    certificateOf: callees.certificateOf,
    fleet: { agents, pools, renderJobs: reflector },
    inspect: createInspector(asking),
    findFaces: createFindFaces({ ...asking, database, removals }),
    previewFrame: createFramePreviewer({
      ...asking,
      sql: database.sql,
      onCharged: metrics.previewCharged,
    }),
  });

  const previews = createPreviewChore({
    database,
    objects,
    voices,
    agents,
    checkAddress: callees.checkAddress,
    logger,
    internalToken: options.internalToken,
    tls: options.tls,
    pace: options.previews,
  });

  const previewLookMs = options.previews?.everyMs ?? PREVIEW_LOOK_MS;

  let ending = false;
  let unready: string | undefined = 'the database has not answered yet';
  const migrate = async () => {
    await migrateWhenReachable(options.postgresUrl, await readMigrations(), logger, signal, (why) => {
      unready = why;
    });
    unready = undefined;
  };
  const migrated = migrate();
  const work = migrated.then(() =>
    Promise.all([
      jobs.run(signal),
      reflector.run(signal),
      agents.run(signal),
      pools.run(signal),
      enginesSeen.run(signal),
      voicesSeen.run(signal),
      sessions.run(signal),
      runChores({ database, logger, chores: [previews], lookEveryMs: previewLookMs }, signal),
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
    port: services.port,
    migrated,
    ready: {
      ...readyChecks({ database, events, reflector, unready: () => unready }),
      ...expiryCheck(options.tls),
      ending() {
        if (ending) throw new Error('the control plane is ending');
      },
    },
    async close() {
      ending = true;
      await services.close();
      stop.abort(new Error('the control plane ends'));
      await work.catch(() => {});
      sessions.close();
      await database.close();
    },
  };
}
