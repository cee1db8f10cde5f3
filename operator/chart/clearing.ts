import { setTimeout as delay } from 'node:timers/promises';
import {
  isKubeError,
  type KubeClient,
  type KubeObject,
  type ResourceDescriptor,
} from '@semblance/common/kube/index';

type Resource = ResourceDescriptor<KubeObject>;

/** How long a Pod gets when it has nothing left to do for anybody. */
const POD_GRACE_SECONDS = 2;

const POLL_MS = 250;

/** Removing what is in a namespace; every step may be repeated. */
export interface Clearing {
  /** Empty where the kind is not known to the API, or not any more. */
  list(resource: Resource, labelSelector?: string): Promise<KubeObject[]>;
  /** Asks for all of them to be deleted. @returns how many there were */
  deleteAll(...resources: readonly Resource[]): Promise<number>;
  /** Takes every finalizer off. @returns how many had any */
  releaseAll(...resources: readonly Resource[]): Promise<number>;
  /**
   * Ends Pods at once, those too that are ending slowly.
   * @param graceSeconds default 2; with 0 they are no more in the API, while a node goes on ending what it runs
   * @returns how many there were
   */
  endPods(pods: Resource, labelSelector: string, graceSeconds?: number): Promise<number>;
  /** Repeats it until it answers 0, or until the time is up. @returns the last answer */
  until(work: () => Promise<number>, withinMs: number): Promise<number>;
}

export function createClearing(client: KubeClient, namespace: string, signal?: AbortSignal): Clearing {
  const list: Clearing['list'] = async (resource, labelSelector) => {
    try {
      return (
        await client.list(resource, { namespace, ...(labelSelector ? { labelSelector } : {}), ...call })
      ).items;
    } catch (error) {
      if (isKubeError(error, 'not_found')) return [];
      throw error;
    }
  };
  const call = signal ? { signal } : {};
  const each = async (
    resources: readonly Resource[],
    work: (resource: Resource, object: KubeObject) => Promise<boolean>,
  ) => {
    let found = 0;
    for (const resource of resources) {
      const done = await Promise.all((await list(resource)).map((object) => work(resource, object)));
      found += done.filter(Boolean).length;
    }
    return found;
  };
  return {
    list,
    deleteAll: (...resources) =>
      each(resources, async (resource, { metadata: { name = '', uid, deletionTimestamp } }) => {
        if (!deletionTimestamp)
          await ignoringLoss(
            client.delete(resource, { namespace, name }, { ...call, ...(uid ? { uid } : {}) }),
          );
        return true;
      }),
    releaseAll: (...resources) =>
      each(resources, async (resource, { metadata: { name = '', uid, finalizers } }) => {
        if (!finalizers?.length) return false;
        const patch = { metadata: { uid, finalizers: null } };
        await ignoringLoss(client.mergePatch(resource, { namespace, name }, patch, call));
        return true;
      }),
    async endPods(pods, labelSelector, gracePeriodSeconds = POD_GRACE_SECONDS) {
      const found = await list(pods, labelSelector);
      await Promise.all(
        found.map(({ metadata: { name = '', uid } }) =>
          ignoringLoss(
            client.delete(
              pods,
              { namespace, name },
              { ...call, gracePeriodSeconds, ...(uid ? { uid } : {}) },
            ),
          ),
        ),
      );
      return found.length;
    },
    async until(work, withinMs) {
      for (const deadline = performance.now() + withinMs; ; ) {
        const left = await work();
        if (left === 0 || performance.now() >= deadline) return left;
        await delay(POLL_MS, undefined, call);
      }
    },
  };
}

/** Something that is gone, or has been made anew under its name, is not the one that was to go. */
async function ignoringLoss(request: Promise<unknown>): Promise<void> {
  await request.catch((error: unknown) => {
    if (!isKubeError(error, 'not_found', 'conflict')) throw error;
  });
}
