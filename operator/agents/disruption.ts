import type { KubeObject, ResourceDescriptor } from '@semblance/common/kube/index';
import type { Pod } from '../pools/pod.ts';

/** Holds what the operator reads of a Node. */
export interface NodeObject extends KubeObject {
  readonly spec?: {
    readonly unschedulable?: boolean;
    readonly taints?: readonly { readonly key: string; readonly effect: string }[];
  };
}

export const NODE_RESOURCE: ResourceDescriptor<NodeObject> = {
  group: '',
  version: 'v1',
  plural: 'nodes',
  kind: 'Node',
};

/** Why an agent is given no more work, whatever it says itself. */
export interface Disruption {
  readonly reason: 'PodTerminating' | 'NodeCordoned';
  /** A sentence, without what follows from it. */
  readonly message: string;
}

/** Taints of a node that is being emptied or does not work, and the effect that counts; undefined: any. */
const TAINTS: readonly { readonly key: string; readonly effect?: string }[] = [
  { key: 'node.kubernetes.io/unschedulable' },
  { key: 'node.kubernetes.io/not-ready', effect: 'NoExecute' },
  { key: 'node.kubernetes.io/out-of-service' },
];

/** Returns what the Pod of an agent and the node it is on say of its future. Pure. */
export function disruptionOf(pod: Pod | undefined, node: NodeObject | undefined): Disruption | undefined {
  const name = pod?.metadata.name;
  if (pod?.metadata.deletionTimestamp) {
    return { reason: 'PodTerminating', message: `Its Pod ${name} is being deleted.` };
  }
  if (pod && isDisrupted(pod)) {
    return { reason: 'PodTerminating', message: `Its Pod ${name} is being disrupted.` };
  }
  const where = node?.metadata.name;
  if (node?.spec?.unschedulable) {
    return { reason: 'NodeCordoned', message: `Its node ${where} is cordoned.` };
  }
  const taint = node?.spec?.taints?.find(({ key, effect }) =>
    TAINTS.some((known) => known.key === key && (known.effect ?? effect) === effect),
  );
  if (!taint) return undefined;
  const message = `Its node ${where} has the taint ${taint.key}:${taint.effect}.`;
  return { reason: 'NodeCordoned', message };
}

/**
 * The API's own word that a Pod goes for a reason outside it: evicted on request, preempted, its node shut down. Not an
 * eviction for want of memory or disk, which the Pod's work may have brought about.
 */
function isDisrupted({ status }: Pod): boolean {
  const told = status?.conditions?.some(
    (condition) => condition.type === 'DisruptionTarget' && condition.status === 'True',
  );
  return told === true && status?.reason !== 'Evicted';
}
