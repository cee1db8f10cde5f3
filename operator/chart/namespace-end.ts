import { isNamespaceGoing, type KubeClient } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { POOL_LABEL } from '../pools/pod.ts';
import { createClearing } from './clearing.ts';
import { COMPONENT_LABEL, OWN_RESOURCES, PODS, PRODUCT_LABEL } from './resources.ts';

/**
 * Called when an operator has ended: when it ends because its namespace is being deleted, it takes off every finalizer,
 * for nobody will be there to do it, and takes the Pods away that may take minutes to end, with work that nobody waits
 * for: agents and gateways. Kubernetes looks again after half of what they may take if it finds one, and a kubelet that
 * ends a container already does not hurry when told to; it goes on ending what has no Pod any more. Clusters that delete
 * Pods before anything else (Kubernetes 1.34 and later always do) leave the operator the rights to.
 * @returns whether the namespace is going
 */
export async function endWithNamespace(options: {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly logger: Logger;
}): Promise<boolean> {
  const { client, namespace, logger } = options;
  if (!(await isNamespaceGoing(client, namespace))) return false;
  const clearing = createClearing(client, namespace);
  const agents = await clearing.endPods(PODS, POOL_LABEL, 0);
  const gateways = await clearing.endPods(PODS, `${PRODUCT_LABEL}=semblance,${COMPONENT_LABEL}=gateway`, 0);
  const released = await clearing.releaseAll(...OWN_RESOURCES);
  logger.info(
    { namespace, released, agents, gateways },
    'the namespace is being deleted: removing all finalizers',
  );
  return true;
}
