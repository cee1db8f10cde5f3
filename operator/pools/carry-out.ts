import { describeError } from '@semblance/common/errors';
import {
  type EventRecorder,
  isKubeError,
  type KubeClient,
  type Reflector,
} from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { GPUAGENT_RESOURCE, type GpuAgent } from '@semblance/crds/gen/gpuagents';
import type { Faults } from './faults.ts';
import { DRAIN_REASON, DRAIN_SINCE, type Observer } from './observe.ts';
import { ownerOf, POD_RESOURCE, type Pod } from './pod.ts';
import { podOf } from './template.ts';
import type { Action, Plan, PoolSnapshot } from './types.ts';

export interface CarryOutOptions {
  readonly client: KubeClient;
  readonly pods: Reflector<Pod>;
  readonly agents: Reflector<GpuAgent>;
  readonly observer: Observer;
  readonly faults: Faults;
  readonly recorder: EventRecorder;
  readonly logger: Logger;
}

/**
 * Carries out the plan. The pool's status already holds the claims, so an uncertain creation is repeated under the
 * same name.
 * @returns claimed names that the API refuses for good
 */
export async function carryOut(
  options: CarryOutOptions,
  snapshot: PoolSnapshot,
  plan: Plan,
  names: readonly string[],
  signal: AbortSignal,
): Promise<Set<string>> {
  const { client, pods, agents, observer, faults, recorder, logger } = options;
  const { pool, revision } = snapshot;
  const { namespace, uid: poolUid = '' } = pool.metadata;
  const refused = new Set<string>();

  async function act(action: Action): Promise<void> {
    const { pod } = action;
    const ref = { namespace, name: pod.name };
    if (action.type === 'remove') {
      await client.delete(POD_RESOURCE, ref, { uid: pod.uid, signal });
      if (pods.byUid(pod.uid)) observer.removed(pod.uid);
      const { reason, note, fault } = action;
      if (fault && !pod.served)
        faults.note(poolUid, revision, pod.end ?? pod.obstacle ?? { reason, message: note });
      const type = fault || reason === 'DrainTimedOut' ? 'Warning' : 'Normal';
      recorder.event(pool, { type, reason, action: 'Remove', note: `${pod.name}: ${note}` });
      logger.info({ pool: pool.metadata.name, pod: pod.name, reason, note }, 'removed an agent');
      return;
    }
    const drain = action.type === 'drain';
    const annotations = {
      [DRAIN_SINCE]: drain ? new Date().toISOString() : null,
      [DRAIN_REASON]: drain ? action.why : null,
    };
    const patch = { metadata: { annotations }, spec: { drain } };
    agents.note(await client.mergePatch(GPUAGENT_RESOURCE, ref, patch, { signal }));
    const reason = drain ? 'Draining' : 'DrainTakenBack';
    const note = drain
      ? `${pod.name} gets no new work and goes when it has none left (${action.why}).`
      : `${pod.name} is wanted again.`;
    recorder.event(pool, { type: 'Normal', reason, action: 'Drain', note });
  }

  async function create(name: string): Promise<void> {
    try {
      pods.note(await client.create(POD_RESOURCE, podOf(pool, name), { signal }));
    } catch (error) {
      if (isKubeError(error, 'already_exists')) {
        const standing = await client.find(POD_RESOURCE, { namespace, name }, { signal });
        if (standing && ownerOf(standing) === poolUid) pods.note(standing);
        else if (standing) refused.add(name);
        return;
      }
      if (!isKubeError(error, 'invalid', 'forbidden', 'not_found')) throw error;
      refused.add(name);
      const message = describeError(error);
      faults.note(poolUid, revision, { reason: 'CreateFailed', message });
      recorder.event(pool, { type: 'Warning', reason: 'CreateFailed', action: 'Create', note: message });
    }
  }

  const under = [
    ...plan.actions.map((action) =>
      act(action).catch((error: unknown) => {
        // The Pod is gone or replaced; the watch will say so.
        if (!isKubeError(error, 'not_found', 'conflict')) throw error;
      }),
    ),
    ...[...plan.claims, ...names].map(create),
  ];
  const failed = (await Promise.allSettled(under)).find(({ status }) => status === 'rejected');
  if (failed?.status === 'rejected') throw failed.reason;
  return refused;
}
