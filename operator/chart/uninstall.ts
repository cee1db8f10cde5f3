import { isKubeError, type KubeClient, LEASE_RESOURCE } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { AGENTPOOL_RESOURCE } from '@semblance/crds/gen/agentpools';
import { GPUAGENT_RESOURCE } from '@semblance/crds/gen/gpuagents';
import { LIVESESSION_RESOURCE } from '@semblance/crds/gen/livesessions';
import { RENDERJOB_RESOURCE } from '@semblance/crds/gen/renderjobs';
import { ELECTION_LEASE } from '../app.ts';
import { createClearing } from './clearing.ts';
import { COMPONENT_LABEL, DEPLOYMENTS, OWN_RESOURCES, PODS, RELEASE_LABEL } from './resources.ts';

/** How long each part is waited for before it is done without those who should have. */
export interface UninstallPatience {
  /** Work is stopped at its agents and settled in the books. */
  readonly workMs: number;
  /** Agents end. */
  readonly agentsMs: number;
  /** Control plane and operator end. */
  readonly servicesMs: number;
}

export const UNINSTALL_PATIENCE: UninstallPatience = { workMs: 20_000, agentsMs: 8_000, servicesMs: 12_000 };

export interface UninstallOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  /** Name that the release's objects begin with. */
  readonly fullname: string;
  readonly release: string;
  readonly logger: Logger;
  readonly patience?: UninstallPatience;
  readonly signal?: AbortSignal;
}

/**
 * Empties a namespace of what an installation made in it, before the installation itself goes: nothing new comes in,
 * running work is stopped and settled by the services as long as they can, and what nobody is left to do is done here.
 * Repeating it, after whatever it was interrupted by, is harmless.
 * @returns how many objects were kept by somebody who did not let go in time, and were released here
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
  // Again and again: the control plane may still be making RenderJobs of jobs submitted a moment ago.
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

  // Helm leaves the Pods of its tests.
  await clearing.endPods(PODS, podsOf('test'));
  // From here on nobody is left to take a finalizer off, or to make anything anew.
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
