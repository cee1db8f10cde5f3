import type { Tls } from '@semblance/common/grpc/tls/tls';
import { createReflector, type KubeClient, LEASE_RESOURCE, type Lease } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import type { Voice } from '@semblance/common/voices/voice';
import { LIVESESSION_RESOURCE, type LiveSession } from '@semblance/crds/gen/livesessions';
import type { Registry } from 'prom-client';
import { createOperatorTexts } from '../jobs/operator-texts.ts';
import type { Database } from '../storage/database.ts';
import { createAllocator, OPERATOR_LEASE } from './allocator.ts';
import { createExpiry } from './expiry.ts';
import type { SessionMetrics } from './metrics.ts';
import { createOpener } from './open.ts';
import { createReports } from './reports.ts';
import { createSessionWatcher } from './watcher.ts';

/** Overrides of production timing, for tests. */
export interface SessionTiming {
  readonly sweepEveryMs?: number;
  readonly graceMs?: number;
  readonly expireEveryMs?: number;
  /** Time for which a leading operator is searched. */
  readonly patienceMs?: number;
}

export interface SessionsOptions extends SessionTiming {
  readonly database: Database;
  /** Voices from files, by id. */
  readonly voices: ReadonlyMap<string, Voice>;
  readonly kube: KubeClient;
  readonly namespace: string;
  readonly logger: Logger;
  readonly registry: Registry;
  readonly metrics: SessionMetrics;
  readonly internalToken?: string | undefined;
  readonly tls?: Tls | undefined;
  readonly now?: (() => Date) | undefined;
}

/** Creates the control plane's part of live sessions: opening, reports, and ends that nobody reports. */
export function createSessions(options: SessionsOptions) {
  const { database, voices, kube, namespace, logger, registry, metrics, now } = options;
  const leases = createReflector<Lease>({
    client: kube,
    resource: LEASE_RESOURCE,
    namespace,
    logger,
    fieldSelector: `metadata.name=${OPERATOR_LEASE}`,
  });
  const reflector = createReflector<LiveSession>({
    client: kube,
    resource: LIVESESSION_RESOURCE,
    namespace,
    logger,
    registry,
  });
  const { internalToken, tls, patienceMs } = options;
  const allocator = createAllocator({
    leases,
    namespace,
    logger,
    internalToken,
    tls,
    ...(patienceMs === undefined ? {} : { patienceMs }),
  });
  const onEnded = metrics.ended;
  const watcher = createSessionWatcher({
    database,
    client: kube,
    reflector,
    namespace,
    logger,
    now,
    onEnded,
    sweepEveryMs: options.sweepEveryMs,
    graceMs: options.graceMs,
  });
  const expiry = createExpiry({ database, logger, now, onEnded, everyMs: options.expireEveryMs });
  return {
    opener: createOpener({
      database,
      voices,
      allocator,
      kube,
      namespace,
      logger,
      onOutcome: metrics.opened,
      onAllocated: metrics.allocated,
    }),
    report: createReports({ database, now, onEnded }),
    nudge: watcher.nudge,
    operatorReadsTexts: createOperatorTexts({ leases, namespace }),
    /** Works until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      await Promise.all([leases.run(signal), reflector.run(signal), watcher.run(signal), expiry.run(signal)]);
    },
    close: () => allocator.close(),
  };
}
