import type { KubeClient } from './client.ts';
import { NAMESPACE_RESOURCE } from './resources.ts';

/**
 * Tells whether the namespace is being deleted, or is gone, with all that is in it.
 * @throws KubeError when it cannot be told
 */
export async function isNamespaceGoing(client: Pick<KubeClient, 'find'>, name: string): Promise<boolean> {
  const found = await client.find(NAMESPACE_RESOURCE, { name });
  return !found || found.metadata.deletionTimestamp !== undefined;
}
