import type { KubeObject, ResourceDescriptor } from '@semblance/common/kube/index';
import type { Pod } from '../pools/pod.ts';

/** The fields of a Node that the operator reads. */
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

/** Reason outside an agent to give it no more work, whatever it says itself. */
export interface Disruption {
  readonly reason: 'PodTerminating' | 'NodeCordoned';
  /** One sentence, without the consequence. */
  readonly message: string;
}

/** Taints of a node that is being emptied or does not work, with the effect that counts; undefined: any. */
const TAINTS: readonly { readonly key: string; readonly effect?: string }[] = [
  { key: 'node.kubernetes.io/unschedulable' },
  { key: 'node.kubernetes.io/not-ready', effect: 'NoExecute' },
  { key: 'node.kubernetes.io/out-of-service' },
];

/** Returns the disruption that the Pod of an agent and its node show, if any. Pure. */
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
 * Returns whether the API says that a Pod goes for a reason outside it: requested eviction, preemption, or node
 * shutdown. An eviction for lack of memory or disk does not count, because the Pod's work may have caused it.
 */
function isDisrupted({ status }: Pod): boolean {
  const announced = status?.conditions?.some(
    (condition) => condition.type === 'DisruptionTarget' && condition.status === 'True',
  );
  return announced === true && status?.reason !== 'Evicted';
}
