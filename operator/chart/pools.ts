import { setTimeout as delay } from 'node:timers/promises';
import { isKubeError, type KubeClient } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { AGENTPOOL_RESOURCE, type AgentPool } from '@semblance/crds/gen/agentpools';
import { RELEASE_LABEL } from './resources.ts';

/** Annotation with the replicas that the values asked for when the pool was last applied. */
const REPLICAS_ANNOTATION = 'semblance.dev/replicas-of-values';
const MANAGED_BY = 'app.kubernetes.io/managed-by';
const RETRY_MS = 500;

/**
 * Returns the pool to apply. The replicas change only when the values do, so that an upgrade does not undo a
 * `kubectl scale`.
 */
function poolToApply(wanted: AgentPool, present: AgentPool | undefined): AgentPool {
  const { replicas } = wanted.spec;
  const asked = replicas === undefined ? 'none' : String(replicas);
  const spec = { ...wanted.spec };
  const kept = present?.spec.replicas;
  const unchanged = present?.metadata.annotations?.[REPLICAS_ANNOTATION] === asked;
  if (kept !== undefined && spec.autoscaling === undefined && (unchanged || replicas === undefined))
    spec.replicas = kept;
  const annotations = { ...wanted.metadata.annotations, [REPLICAS_ANNOTATION]: asked };
  return { ...wanted, metadata: { ...wanted.metadata, annotations }, spec };
}

/**
 * Returns the patch for a switch between fixed replicas and autoscaling, else undefined. An apply alone cannot
 * remove a field that somebody else owns, such as `kubectl scale`. The patch takes it from every owner and sets the
 * other in the same write.
 */
function changeOfScaling(present: AgentPool | undefined, { spec }: AgentPool) {
  if (!present || (present.spec.autoscaling === undefined) === (spec.autoscaling === undefined))
    return undefined;
  return { spec: { replicas: spec.replicas ?? null, autoscaling: spec.autoscaling ?? null } };
}

export interface ApplyPoolsOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly release: string;
  readonly wanted: readonly AgentPool[];
  readonly logger: Logger;
  /** Ends the retries while the API is only starting to serve the resource. */
  readonly signal: AbortSignal;
}

/** Makes the release's pools match its values. Pools that others made are left alone. */
export async function applyPools(options: ApplyPoolsOptions): Promise<void> {
  for (;;) {
    try {
      return await apply(options);
    } catch (error) {
      const starting = isKubeError(error) && (error.retryable || error.code === 'not_found');
      if (!starting || options.signal.aborted) throw error;
      options.logger.info(`waiting for the Kubernetes API: ${error.message}`);
      await delay(RETRY_MS, undefined, { signal: options.signal }).catch(() => {
        throw error;
      });
    }
  }
}

async function apply({
  client,
  namespace,
  release,
  wanted,
  logger,
  signal,
}: ApplyPoolsOptions): Promise<void> {
  const labelSelector = `${MANAGED_BY}=Helm,${RELEASE_LABEL}=${release}`;
  const { items } = await client.list(AGENTPOOL_RESOURCE, { namespace, labelSelector, signal });
  for (const pool of wanted) {
    const { name = '' } = pool.metadata;
    const present = await client.find(AGENTPOOL_RESOURCE, { namespace, name }, { signal });
    const metadata = { ...pool.metadata, namespace };
    const applied = poolToApply({ ...pool, metadata }, present);
    const change = changeOfScaling(present, applied);
    if (change) await client.mergePatch(AGENTPOOL_RESOURCE, { namespace, name }, change, { signal });
    await client.apply(AGENTPOOL_RESOURCE, applied, { signal });
    logger.info({ pool: name }, present ? 'brought up to the values' : 'made');
  }
  const names = new Set(wanted.map(({ metadata }) => metadata.name));
  for (const { metadata } of items) {
    if (names.has(metadata.name)) continue;
    await client.delete(
      AGENTPOOL_RESOURCE,
      { namespace, name: metadata.name ?? '' },
      { signal, ...(metadata.uid ? { uid: metadata.uid } : {}) },
    );
    logger.info({ pool: metadata.name }, 'deleted a pool that the values no longer name');
  }
}
