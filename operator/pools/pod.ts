import type { KubeObject, ResourceDescriptor } from '@semblance/common/kube/index';

/** Label of every Pod of a pool: the pool's name. */
export const POOL_LABEL = 'semblance.dev/pool';
/** Label of every Pod of a pool: the revision of its template. */
export const REVISION_LABEL = 'semblance.dev/revision';
/** Annotation: `true` lets the Pod go before others when one must go. */
export const DELETE_FIRST = 'semblance.dev/delete-first';

export interface ContainerStatus {
  readonly name: string;
  readonly state?: {
    readonly waiting?: { readonly reason?: string; readonly message?: string };
    readonly running?: object;
    readonly terminated?: Terminated;
  };
  /** How it ended before it was started again. */
  readonly lastState?: { readonly terminated?: Terminated };
}

interface Terminated {
  readonly reason?: string;
  readonly message?: string;
  readonly exitCode?: number;
  readonly finishedAt?: string;
}

/** The fields of a Pod that the operator reads. */
export interface Pod extends KubeObject {
  readonly spec?: { readonly nodeName?: string; readonly [field: string]: unknown };
  readonly status?: {
    readonly phase?: string;
    readonly podIP?: string;
    readonly podIPs?: readonly { readonly ip?: string }[];
    readonly reason?: string;
    readonly message?: string;
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly reason?: string;
      readonly message?: string;
      readonly lastTransitionTime?: string;
    }[];
    readonly initContainerStatuses?: readonly ContainerStatus[];
    readonly containerStatuses?: readonly ContainerStatus[];
  };
}

export const POD_RESOURCE: ResourceDescriptor<Pod> = {
  group: '',
  version: 'v1',
  plural: 'pods',
  kind: 'Pod',
};

export interface Fault {
  readonly reason: string;
  readonly message: string;
}

/** Reasons of a waiting container that pass by themselves. */
const ORDINARY = new Set(['ContainerCreating', 'PodInitializing']);

const conditionOf = ({ status }: Pod, type: string) => status?.conditions?.find((each) => each.type === type);

/** Returns the uid of the AgentPool that owns the Pod, if any. */
export function ownerOf({ metadata }: Pod): string | undefined {
  return metadata.ownerReferences?.find(({ kind, controller }) => kind === 'AgentPool' && controller)?.uid;
}

export const isPodReady = (pod: Pod): boolean => conditionOf(pod, 'Ready')?.status === 'True';

/** Returns since when the Pod is ready, in Unix milliseconds. */
export function readySince(pod: Pod): number | undefined {
  const condition = conditionOf(pod, 'Ready');
  return condition?.status === 'True' ? Date.parse(condition.lastTransitionTime ?? '') || 0 : undefined;
}

/** Returns when the Pod was assigned to a node, in Unix milliseconds. */
export function scheduledAt(pod: Pod): number | undefined {
  const condition = conditionOf(pod, 'PodScheduled');
  if (condition?.status !== 'True') return undefined;
  return Date.parse(condition.lastTransitionTime ?? pod.metadata.creationTimestamp ?? '') || 0;
}

/** Returns why the Pod has ended for good: failed, evicted, or exited by itself, which no agent does. */
export function endOf({ status }: Pod): Fault | undefined {
  if (status?.phase !== 'Failed' && status?.phase !== 'Succeeded') return undefined;
  const ended = status.containerStatuses?.find(({ state }) => state?.terminated)?.state?.terminated;
  const why = ended && `${ended.reason ?? 'it ended'} with exit code ${ended.exitCode ?? 'unknown'}`;
  return {
    reason: reasonOf(status.reason ?? ended?.reason ?? `Pod${status.phase}`),
    message: status.message ?? ended?.message ?? why ?? `its phase is ${status.phase}`,
  };
}

/**
 * Returns what keeps the Pod from becoming ready and will hardly pass by itself, in the words of whoever found it.
 */
export function obstacleOf(pod: Pod): Fault | undefined {
  const scheduled = conditionOf(pod, 'PodScheduled');
  if (scheduled?.status === 'False') {
    const { reason = 'Unschedulable', message = 'no node takes it' } = scheduled;
    return { reason: reasonOf(reason), message };
  }
  const { initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {};
  for (const { name, state, lastState } of [...initContainerStatuses, ...containerStatuses]) {
    const { reason, message } = state?.waiting ?? {};
    if (!reason || ORDINARY.has(reason)) continue;
    const before = lastState?.terminated?.message?.trim().split('\n').at(-1);
    const last = before ? `; it ended with: ${before}` : '';
    return { reason: reasonOf(reason), message: `container ${name}: ${message ?? reason}${last}` };
  }
  return undefined;
}

/** Returns the text as a valid reason of a condition. */
function reasonOf(text: string): string {
  return text.replace(/[^A-Za-z]/g, '').slice(0, 64) || 'Unknown';
}
