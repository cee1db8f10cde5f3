import { randomBytes } from 'node:crypto';
import { createWorkQueue } from '@semblance/common/async/work-queue';
import {
  type EventRecorder,
  isKubeError,
  type KubeClient,
  type Reflector,
} from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { AGENTPOOL_RESOURCE, type AgentPool, type AgentPoolStatus } from '@semblance/crds/gen/agentpools';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import type { Registry } from 'prom-client';
import { carryOut } from './carry-out.ts';
import { deniedStatus } from './denied.ts';
import { createFaults } from './faults.ts';
import { createPoolMetrics } from './metrics.ts';
import { createObserver, type ObserverOptions, podsOf } from './observe.ts';
import { createOutlooks } from './outlooks.ts';
import { ownerOf, POD_RESOURCE, POOL_LABEL, type Pod } from './pod.ts';
import type { PoolController } from './pool-controller.ts';
import { reconcile } from './reconcile.ts';
import { createRefusedOpens } from './refused-opens.ts';
import { createSnapshots } from './snapshots.ts';
import { compareStatus, statusOf } from './status.ts';
import type { Demand } from './types.ts';

/**
 * Interval for changes that make no event, in ms: idle times, expired warm-ups and drains, jobs that come to wait.
 */
const TICK_MS = 1_000;
/** Shortest interval between writes of mere counts, in ms. Slots change faster than anybody reads them. */
const WRITE_EVERY_MS = 1_000;
/** Delay before a retry after a write conflict, in ms. The watch brings the newer version meanwhile. */
const CONFLICT_MS = 100;

export interface PoolControllerOptions extends ObserverOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly pools: Reflector<AgentPool>;
  readonly pods: Reflector<Pod>;
  readonly agents: Reflector<GpuAgent>;
  /** Returns the RenderJobs that wait and could begin, by capability. */
  readonly waitingJobs: () => Omit<Demand, 'opens'>;
  /** Called when the outlook of a pool has changed. */
  readonly onOutlook: () => void;
  readonly recorder: EventRecorder;
  readonly registry: Registry;
  readonly logger: Logger;
  /** First pause after Pods could not be started, in ms. Default 10,000. */
  readonly faultPauseMs?: number | undefined;
}

/** Keeps the Pods of every AgentPool as `reconcile` decides. */
export function createPoolController(options: PoolControllerOptions): PoolController {
  const { client, namespace, pools, pods, logger, registry } = options;
  const observer = createObserver(options);
  const opens = createRefusedOpens();
  const faults = createFaults(options.faultPauseMs);
  const metrics = createPoolMetrics(registry);
  const outlooks = createOutlooks(options.onOutlook);
  const writtenAt = new Map<string, number>();
  const refused = new Map<string, Set<string>>();
  const { snapshotOf, demandOf } = createSnapshots({ ...options, observer, opens, faults, refused });
  let podsKnown = false;

  async function process(name: string, signal: AbortSignal): Promise<{ requeueAfterMs: number } | undefined> {
    const pool = pools.get(name);
    // The Pods of a deleted pool go with it.
    if (!pool || pool.metadata.deletionTimestamp) {
      forget(name);
      return undefined;
    }
    if (!podsKnown || pods.denied !== undefined) {
      forget(name);
      const status = pods.denied === undefined ? undefined : deniedStatus(pool, pods.denied, Date.now());
      if (status && (await writeStatus(options, pool, status, signal))) recordChange(options, pool, status);
      return undefined;
    }
    let snapshot = snapshotOf(pool, podsOf(pods, pool), demandOf(name));
    let plan = reconcile(snapshot);
    if (plan.create > 0) {
      // The local copy may lag behind: only a fresh list shows that Pods are missing.
      const labelSelector = `${POOL_LABEL}=${name}`;
      const { items } = await client.list(POD_RESOURCE, { namespace, labelSelector, signal });
      const own = items.filter((pod) => ownerOf(pod) === pool.metadata.uid);
      for (const pod of own) pods.note(pod);
      snapshot = snapshotOf(pool, own, demandOf(name));
      plan = reconcile(snapshot);
    }
    metrics.show(snapshot, plan);
    outlooks.show(snapshot, plan);

    const names = Array.from({ length: plan.create }, () => `${name}-${suffix()}`);
    const status = statusOf(snapshot, plan, names);
    const difference = compareStatus(pool.status, status);
    const wait = (writtenAt.get(name) ?? Number.NEGATIVE_INFINITY) + WRITE_EVERY_MS - performance.now();
    if (difference === 'urgent' || (difference === 'counts' && wait <= 0)) {
      if (!(await writeStatus(options, pool, status, signal))) return { requeueAfterMs: CONFLICT_MS };
      writtenAt.set(name, performance.now());
      recordChange(options, pool, status);
    }
    refused.delete(name);
    const turnedDown = await carryOut({ ...options, observer, faults }, snapshot, plan, names, signal);
    if (turnedDown.size > 0) refused.set(name, turnedDown);
    // The next pass takes refused names off the claims.
    if (turnedDown.size > 0) return { requeueAfterMs: CONFLICT_MS };
    return difference === 'counts' && wait > 0 ? { requeueAfterMs: wait } : undefined;
  }

  function forget(name: string): void {
    outlooks.forget(name);
    metrics.forget(name);
    writtenAt.delete(name);
    refused.delete(name);
  }

  const queue = createWorkQueue({
    process,
    concurrency: 4,
    name: 'agentpools',
    logger,
    registry,
    maxDelayMs: 10_000,
  });
  const touchAll = () => {
    for (const { metadata } of pools.list()) queue.add(metadata.name ?? '');
  };
  const touchPod = (pod: Pod) => {
    const pool = pools.byUid(ownerOf(pod) ?? '');
    if (pool) queue.add(pool.metadata.name ?? '');
  };
  const touchPool = ({ metadata }: AgentPool) => queue.add(metadata.name ?? '');

  return {
    poolHandlers: {
      onAdd: touchPool,
      onUpdate: touchPool,
      onDelete(pool) {
        faults.forget(pool.metadata.uid ?? '');
        touchPool(pool);
      },
    },
    podHandlers: {
      onAdd: touchPod,
      onUpdate: touchPod,
      onDelete(pod) {
        observer.forget(pod);
        touchPod(pod);
      },
    },
    opens: {
      refused(capability, account) {
        opens.refused(capability, account);
        touchAll();
      },
      opened: opens.opened,
    },
    touchAgent(agent) {
      const pod = pods.get(agent);
      if (pod) touchPod(pod);
    },
    worked: observer.worked,
    mayGrow: outlooks.mayGrow,
    wordOf: outlooks.wordOf,
    async run(signal) {
      try {
        // Pools are read before Pods: a claim that has left its pool is then a Pod in the later list.
        await pools.resync(signal);
      } catch (error) {
        if (!signal.aborted) throw error;
        return;
      }
      // If RBAC denies Pods this may never end, and the pools' status must say so meanwhile.
      const reading = pods.resync(signal).then(
        () => {
          podsKnown = true;
          touchAll();
        },
        (error: unknown) => {
          if (!signal.aborted) throw error;
        },
      );
      const ticking = setInterval(touchAll, TICK_MS);
      const ended = Promise.all([queue.run(signal), reading]);
      touchAll();
      await ended;
      clearInterval(ticking);
      // The next leader reports the pools' outlook.
      for (const name of outlooks.pools()) forget(name);
    },
  };
}

/** @returns undefined when somebody else has written; the caller must then not act on what it read */
async function writeStatus(
  { client, pools }: Pick<PoolControllerOptions, 'client' | 'pools'>,
  pool: AgentPool,
  status: AgentPoolStatus,
  signal: AbortSignal,
): Promise<AgentPool | undefined> {
  const change = { ...pool, status };
  try {
    const written = await client.replace(AGENTPOOL_RESOURCE, change, { subresource: 'status', signal });
    pools.note(written);
    return written;
  } catch (error) {
    if (isKubeError(error, 'conflict', 'not_found')) return undefined;
    throw error;
  }
}

/** Makes events of a new number of agents and of a new reason. */
function recordChange(
  { recorder, logger }: Pick<PoolControllerOptions, 'recorder' | 'logger'>,
  pool: AgentPool,
  status: AgentPoolStatus,
): void {
  const { desiredReplicas: before } = pool.status ?? {};
  const { desiredReplicas: after = 0 } = status;
  if (before !== after) {
    const note = before === undefined ? `To ${after}.` : `From ${before} to ${after}.`;
    const reason = after < (before ?? 0) ? 'ScalingDown' : 'ScalingUp';
    recorder.event(pool, { type: 'Normal', reason, action: 'Scale', note });
  }
  const ready = (of: AgentPool['status']) => of?.conditions?.find(({ type }) => type === 'Ready');
  const now = ready(status);
  if (!now || ready(pool.status)?.reason === now.reason) return;
  const fine = now.status === 'True' || now.reason === 'AgentsStarting';
  const { reason, message } = now;
  recorder.event(pool, { type: fine ? 'Normal' : 'Warning', reason, action: 'Judge', note: message });
  logger.info({ pool: pool.metadata.name, reason, message }, 'pool changed');
}

/** Returns five random letters and digits, without those that form words or look alike. */
function suffix(): string {
  const alphabet = 'bcdfghjklmnpqrstvwxz2456789';
  return [...randomBytes(5)].map((byte) => alphabet[byte % alphabet.length]).join('');
}
