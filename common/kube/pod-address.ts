import type { KubeObject, ResourceDescriptor } from './resources.ts';

/** The addresses of a Pod. */
export interface AddressedPod extends KubeObject {
  readonly status?: { readonly podIP?: string; readonly podIPs?: readonly { readonly ip?: string }[] };
}

export const ADDRESSED_POD: ResourceDescriptor<AddressedPod> = {
  group: '',
  version: 'v1',
  plural: 'pods',
  kind: 'Pod',
};

/** What an agent says of itself. */
interface Stated {
  readonly metadata: KubeObject['metadata'];
  readonly status?: { readonly address?: string };
}

/**
 * Returns why the host:port that an agent states is not an address of its own Pod; undefined when it is. An agent
 * without a Pod, which only a person can register, may state any address.
 * @param pod the Pod of the agent's name, if there is one
 */
export function addressFault(
  { metadata, status }: Stated,
  pod: AddressedPod | undefined,
): string | undefined {
  const owner = metadata.ownerReferences?.find(({ kind }) => kind === 'Pod');
  const { address } = status ?? {};
  if (!address || (!owner && !pod)) return undefined;
  const { name } = metadata;
  if (!pod || (owner && owner.uid !== pod.metadata.uid)) return `its Pod ${owner?.name} is not there`;
  const { podIP, podIPs = [] } = pod.status ?? {};
  const own = [podIP, ...podIPs.map(({ ip }) => ip)].filter((ip) => ip !== undefined);
  if (own.length === 0) return `its Pod ${name} has no address yet`;
  const host = address.slice(0, address.lastIndexOf(':')).replace(/^\[|\]$/g, '');
  if (own.includes(host)) return undefined;
  return `it states the address ${address}, and its Pod ${name} has ${own[0]}`;
}
