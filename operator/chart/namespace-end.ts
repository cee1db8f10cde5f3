import { type KubeClient, NAMESPACE_RESOURCE } from '#common/kube/index.ts';
import type { Logger } from '#common/logging.ts';
import { createClearing } from './clearing.ts';
import { COMPONENT_LABEL, OWN_RESOURCES, PODS } from './resources.ts';

/**
 * Called when an operator has ended: when it ends because its namespace is being deleted, it takes off every finalizer,
 * for nobody will be there to do it, and ends the agents' Pods, whose work nobody waits for. Clusters that delete Pods
 * before anything else (Kubernetes 1.34 and later always do) leave it the rights to.
 * @returns whether the namespace is going
 */
export async function endWithNamespace(options: {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly logger: Logger;
}): Promise<boolean> {
  const { client, namespace, logger } = options;
  const found = await client.find(NAMESPACE_RESOURCE, { name: namespace });
  if (found && !found.metadata.deletionTimestamp) return false;
  const clearing = createClearing(client, namespace);
  const agents = await clearing.endPods(PODS, `${COMPONENT_LABEL}=agent`);
  const released = await clearing.releaseAll(...OWN_RESOURCES);
  logger.info(
    { namespace, released, agents },
    'the namespace is being deleted: nothing is kept in it any more',
  );
  return true;
}
