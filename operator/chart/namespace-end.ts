import { isNamespaceGoing, type KubeClient } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { POOL_LABEL } from '../pools/pod.ts';
import { createClearing } from './clearing.ts';
import { COMPONENT_LABEL, OWN_RESOURCES, PODS, PRODUCT_LABEL } from './resources.ts';

/**
 * Clears the namespace of an operator that has ended, if the namespace is being deleted.
 *
 * - It removes every finalizer, because nobody else will.
 * - It force-deletes the Pods of agents and gateways, which may take minutes to end work that nobody waits for. If
 *   Kubernetes finds such a Pod, it looks again only after half of the time that the Pod may take. A kubelet that
 *   already ends a container ignores a shorter grace period, and goes on ending it without a Pod.
 *
 * Clusters that delete Pods first (always from Kubernetes 1.34) leave the operator the permissions for this.
 * @returns whether the namespace is being deleted
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
