import type { KubeClient } from './client.ts';
import { NAMESPACE_RESOURCE } from './resources.ts';

/**
 * Tells whether the namespace is gone, or is being deleted with everything in it.
 * @throws KubeError when the API does not answer
 */
export async function isNamespaceGoing(client: Pick<KubeClient, 'find'>, name: string): Promise<boolean> {
  const found = await client.find(NAMESPACE_RESOURCE, { name });
  return !found || found.metadata.deletionTimestamp !== undefined;
}
