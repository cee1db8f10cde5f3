import { isKubeError, type KubeClient, LEASE_RESOURCE } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { AGENTPOOL_RESOURCE } from '@semblance/crds/gen/agentpools';
import { GPUAGENT_RESOURCE } from '@semblance/crds/gen/gpuagents';
import { LIVESESSION_RESOURCE } from '@semblance/crds/gen/livesessions';
import { RENDERJOB_RESOURCE } from '@semblance/crds/gen/renderjobs';
import { ELECTION_LEASE } from '../app.ts';
import { createClearing } from './clearing.ts';
import { COMPONENT_LABEL, DEPLOYMENTS, OWN_RESOURCES, PODS, RELEASE_LABEL } from './resources.ts';

/** Longest wait for the services in each phase, in ms. Afterwards the uninstall does their part. */
export interface UninstallPatience {
  /** Until work is stopped at its agents and settled in the books. */
  readonly workMs: number;
  /** Until agents end. */
  readonly agentsMs: number;
  /** Until the control plane and the operator end. */
  readonly servicesMs: number;
}

const UNINSTALL_PATIENCE: UninstallPatience = { workMs: 20_000, agentsMs: 8_000, servicesMs: 12_000 };

export interface UninstallOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  /** Prefix of the names of the release's objects. */
  readonly fullname: string;
  readonly release: string;
  readonly logger: Logger;
  readonly patience?: UninstallPatience;
  readonly signal?: AbortSignal;
}

/**
 * Empties a namespace of what an installation made in it, before the installation itself goes. It stops the intake,
 * lets the services stop and settle running work as long as they can, and does the rest itself. It may be repeated
 * after any interruption.
 * @returns how many objects were not released in time by others, and were released here
 */
export async function uninstall(options: UninstallOptions): Promise<number> {
  const { client, namespace, fullname, release, logger, patience = UNINSTALL_PATIENCE, signal } = options;
  const clearing = createClearing(client, namespace, signal);
  const podsOf = (...components: string[]) =>
    `${RELEASE_LABEL}=${release},${COMPONENT_LABEL} in (${components.join(',')})`;
  const scaleToNone = async (component: string) => {
    const ref = { namespace, name: `${fullname}-${component}` };
    await client
      .mergePatch(DEPLOYMENTS, ref, { spec: { replicas: 0 } }, signal ? { signal } : {})
      .catch((error: unknown) => {
        if (!isKubeError(error, 'not_found')) throw error;
      });
  };

  await scaleToNone('gateway');
  // The control plane may still create RenderJobs for recent submits.
  const work = await clearing.until(
    () => clearing.deleteAll(RENDERJOB_RESOURCE, LIVESESSION_RESOURCE),
    patience.workMs,
  );
  if (work > 0) logger.warn({ left: work }, 'jobs or sessions still have finalizers at the end of the time');

  await clearing.deleteAll(AGENTPOOL_RESOURCE);
  const agents = async () =>
    (await clearing.deleteAll(AGENTPOOL_RESOURCE)) + (await clearing.list(PODS, podsOf('agent'))).length;
  if ((await clearing.until(agents, patience.agentsMs)) > 0) {
    logger.warn('deleting agents that did not end in time');
    await clearing.endPods(PODS, podsOf('agent'));
  }

  await Promise.all(['control-plane', 'operator'].map(scaleToNone));
  const services = podsOf('gateway', 'control-plane', 'operator');
  if (
    (await clearing.until(async () => (await clearing.list(PODS, services)).length, patience.servicesMs)) > 0
  ) {
    logger.warn('deleting services that did not end in time');
    await clearing.endPods(PODS, services);
  }

  // Helm leaves the Pods of its tests behind.
  await clearing.endPods(PODS, podsOf('test'));
  // From here on nobody is left to remove a finalizer or to create anything anew.
  const leases = [
    ELECTION_LEASE,
    ...(await clearing.list(GPUAGENT_RESOURCE)).map(({ metadata }) => metadata.name ?? ''),
  ];
  await clearing.deleteAll(...OWN_RESOURCES);
  const released = await clearing.releaseAll(...OWN_RESOURCES);
  for (const name of leases)
    await client.delete(LEASE_RESOURCE, { namespace, name }, signal ? { signal } : {});
  logger.info({ namespace, released }, 'removed all jobs, sessions, pools and agents of the namespace');
  return released;
}
