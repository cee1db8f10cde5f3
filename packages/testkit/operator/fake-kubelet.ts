import {
  createReflector,
  type KubeObject,
  LEASE_RESOURCE,
  type ResourceDescriptor,
} from '@semblance/common/kube/index';
import { silentLogger } from '@semblance/common/logging';
import { GPUAGENT_RESOURCE } from '@semblance/crds/gen/gpuagents';
import { POD_RESOURCE, POOL_LABEL, type Pod } from '@semblance/operator/pools/pod';
import type { FakeAgent, FakeAgentOptions } from './fake-agent.ts';
import type { Harness } from './harness.ts';

const SERVICE_ACCOUNT: ResourceDescriptor<KubeObject> = {
  group: '',
  version: 'v1',
  plural: 'serviceaccounts',
  kind: 'ServiceAccount',
};

/** Fate of a created Pod: its agent runs, or it stops at an earlier stage. */
export type Fate = 'run' | 'pending' | 'unschedulable' | 'no-image' | 'fail';

export interface FakeKubelet {
  /** Chooses the fate of each created Pod. Default: `run`. */
  fateOf: (pod: Pod) => Fate;
  /** Running agents by the name of their Pod. */
  readonly agents: ReadonlyMap<string, FakeAgent>;
  /** Names of all Pods ever created, in order. */
  readonly made: readonly string[];
  /** Largest number of Pods that existed at once. */
  readonly most: number;
  /** Lets a Pod run that had stopped at an earlier stage. */
  start(pod: string): Promise<void>;
  close(): Promise<void>;
}

export type AgentOfPod = Omit<FakeAgentOptions, 'kubeconfigPath' | 'namespace' | 'name'>;

/**
 * Replaces node, kubelet and garbage collector: it gives each Pod of a pool a node and an agent in this process,
 * and removes the objects of a deleted Pod.
 */
export async function startFakeKubelet(harness: Harness, agent: AgentOfPod): Promise<FakeKubelet> {
  const { client, namespace } = harness;
  // Pods need the default service account, which no controller creates here.
  const account = { metadata: { name: 'default', namespace } };
  await client.apply(SERVICE_ACCOUNT, { ...account, automountServiceAccountToken: false } as typeof account);
  const ending = new AbortController();
  const agents = new Map<string, FakeAgent>();
  const made: string[] = [];
  const alive = new Set<string>();
  /** Pending operation of each Pod; operations on one Pod run in sequence. */
  const work = new Map<string, Promise<void>>();
  let most = 0;

  const condition = (type: string, status: string, more: object = {}) => ({
    type,
    status,
    lastTransitionTime: new Date().toISOString(),
    ...more,
  });
  const say = (name: string, status: object) =>
    client.mergePatch(POD_RESOURCE, { namespace, name }, { status }, { subresource: 'status' });
  const scheduled = condition('PodScheduled', 'True');

  async function run(name: string): Promise<void> {
    agents.set(name, await harness.agent({ ...agent, name }));
    const conditions = [scheduled, condition('Ready', 'True')];
    await say(name, { phase: 'Running', podIP: '127.0.0.1', podIPs: [{ ip: '127.0.0.1' }], conditions });
  }

  async function meet(name: string, fate: Fate): Promise<void> {
    if (fate === 'run') return run(name);
    if (fate === 'pending') return;
    if (fate === 'fail') {
      await say(name, { phase: 'Failed', reason: 'OutOfcpu', message: 'the node has no cpu left' });
      return;
    }
    if (fate === 'unschedulable') {
      const more = {
        reason: 'Unschedulable',
        message: '0/1 nodes are available: 1 Insufficient nvidia.com/gpu.',
      };
      await say(name, { conditions: [condition('PodScheduled', 'False', more)] });
      return;
    }
    const waiting = { reason: 'ImagePullBackOff', message: 'Back-off pulling image "agent:1"' };
    const status = {
      name: 'agent',
      image: 'agent:1',
      imageID: '',
      ready: false,
      restartCount: 0,
      state: { waiting },
    };
    await say(name, { conditions: [scheduled, condition('Ready', 'False')], containerStatuses: [status] });
  }

  async function bury(name: string): Promise<void> {
    await agents.get(name)?.kill();
    agents.delete(name);
    await client.delete(GPUAGENT_RESOURCE, { namespace, name });
    await client.delete(LEASE_RESOURCE, { namespace, name });
  }

  function next(name: string, what: () => Promise<void>): Promise<void> {
    const after = (work.get(name) ?? Promise.resolve()).then(what).catch((error: unknown) => {
      // A Pod may be deleted during its start.
      if (!ending.signal.aborted && alive.has(name)) throw error;
    });
    work.set(name, after);
    return after;
  }

  const self: FakeKubelet = {
    fateOf: () => 'run',
    agents,
    made,
    get most() {
      return most;
    },
    start: (name) => next(name, () => run(name)),
    async close() {
      ending.abort();
      await watching;
      await Promise.allSettled(work.values());
    },
  };
  const reflector = createReflector<Pod>({
    client,
    resource: POD_RESOURCE,
    namespace,
    labelSelector: POOL_LABEL,
    logger: silentLogger(),
    handlers: {
      onAdd(pod) {
        const { name = '' } = pod.metadata;
        made.push(name);
        alive.add(name);
        most = Math.max(most, alive.size);
        void next(name, () => meet(name, self.fateOf(pod)));
      },
      onDelete({ metadata: { name = '' } }) {
        alive.delete(name);
        void next(name, () => bury(name));
      },
    },
  });
  const watching = reflector.run(ending.signal);
  await reflector.waitForSync(ending.signal);
  return self;
}
