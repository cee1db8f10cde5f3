import { setTimeout as delay } from 'node:timers/promises';
import {
  isKubeError,
  type KubeClient,
  type KubeObject,
  type ResourceDescriptor,
} from '@semblance/common/kube/index';

type Resource = ResourceDescriptor<KubeObject>;

/** Grace period of a Pod that has nothing left to do, in seconds. */
const POD_GRACE_SECONDS = 2;

const POLL_MS = 250;

/** Steps that remove the objects of a namespace. Every step may be repeated. */
export interface Clearing {
  /** Returns an empty list if the API does not serve the kind. */
  list(resource: Resource, labelSelector?: string): Promise<KubeObject[]>;
  /** Requests the deletion of all objects. @returns their number */
  deleteAll(...resources: readonly Resource[]): Promise<number>;
  /** Removes every finalizer. @returns the number of objects that had one */
  releaseAll(...resources: readonly Resource[]): Promise<number>;
  /**
   * Ends Pods at once, including those that end slowly.
   * @param graceSeconds default 2; with 0 they leave the API at once, while the node goes on ending them
   * @returns how many there were
   */
  endPods(pods: Resource, labelSelector: string, graceSeconds?: number): Promise<number>;
  /** Repeats `work` until it returns 0 or the time is up. @returns the last result */
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

/** Ignores an object that is gone, or was made anew and is therefore not the one to remove. */
async function ignoringLoss(request: Promise<unknown>): Promise<void> {
  await request.catch((error: unknown) => {
    if (!isKubeError(error, 'not_found', 'conflict')) throw error;
  });
}
