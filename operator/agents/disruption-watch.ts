import { createReflector, gauge, type KubeClient, type Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import type { Registry } from 'prom-client';
import type { Pod } from '../pools/pod.ts';
import { type Disruption, disruptionOf, NODE_RESOURCE, type NodeObject } from './disruption.ts';

/** Interval between retries of reads that RBAC denies, in ms. */
export const DENIED_RETRY_MS = 60_000;
/** Longest wait of a start for the first read of nodes and Pods, in ms. */
const SYNC_WITHIN_MS = 5_000;
/** Most agent processes whose disruption is remembered. */
const REMEMBERED = 10_000;

export interface DisruptionWatchOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly logger: Logger;
  readonly registry: Registry;
  /** Called when the Pod or node of the agent has changed. */
  readonly onChanged: (agent: string) => void;
  readonly agents: Pick<Reflector<GpuAgent>, 'get' | 'list'>;
  /** All Pods of the namespace, in a pool or not. The creator runs the reflector. */
  readonly pods: Pick<Reflector<Pod>, 'addHandlers' | 'denied' | 'get' | 'hasSynced' | 'waitForSync'>;
  readonly deniedRetryMs?: number;
}

/** Watches Nodes and the Pods of agents for disruptions. RBAC may deny either, which is then left out. */
export interface DisruptionWatch {
  /** Watches Nodes. */
  run(signal: AbortSignal): Promise<void>;
  /** Resolves when both have been read or denied, or after SYNC_WITHIN_MS. */
  known(signal: AbortSignal): Promise<void>;
  of(agent: GpuAgent): Disruption | undefined;
  /** Returns the disruption that ended this process of an agent, or was about to; undefined when none is known. */
  endOf(agent: string, incarnation: string): string | undefined;
  /** How far Nodes and Pods are watched, for `/readyz`. */
  readonly told: Readonly<Record<'nodes' | 'pods', () => string>>;
}

export function createDisruptionWatch(options: DisruptionWatchOptions): DisruptionWatch {
  const { client, namespace, logger, registry, agents, pods, onChanged } = options;
  const nodes = createReflector<NodeObject>({
    client,
    logger,
    registry,
    resource: NODE_RESOURCE,
    optional: { retryMs: options.deniedRetryMs ?? DENIED_RETRY_MS },
    handlers: { onAdd: nodeChanged, onUpdate: nodeChanged, onDelete: nodeChanged },
  });
  pods.addHandlers({ onAdd: podChanged, onUpdate: podChanged, onDelete: podChanged });
  /** Last seen disruption of a process, by `agent/incarnation`. */
  const disrupted = new Map<string, Disruption>();

  gauge(registry, {
    name: 'semblance_disruption_watched',
    help: 'Whether RBAC lets the operator see cordons (nodes) and deletions (pods): 1 or 0.',
    labelNames: ['resource'] as const,
    collect() {
      this.set({ resource: 'nodes' }, nodes.denied === undefined ? 1 : 0);
      this.set({ resource: 'pods' }, pods.denied === undefined ? 1 : 0);
    },
  });

  function podChanged({ metadata: { name = '' } }: Pod): void {
    if (agents.get(name)) onChanged(name);
  }

  function nodeChanged(node: NodeObject, old?: NodeObject): void {
    // Nodes report at least every few minutes, mostly without a change.
    if (old && disruptionOf(undefined, node)?.message === disruptionOf(undefined, old)?.message) return;
    const { metadata } = node;
    for (const agent of agents.list()) {
      if (nodeNameOf(agent) === metadata.name) onChanged(agent.metadata.name ?? '');
    }
  }

  const podOf = (name: string) => (pods.denied === undefined ? pods.get(name, namespace) : undefined);
  const nodeNameOf = ({ metadata, status }: GpuAgent) =>
    podOf(metadata.name ?? '')?.spec?.nodeName ?? status?.node;

  function of(agent: GpuAgent): Disruption | undefined {
    const { name = '' } = agent.metadata;
    const nodeName = nodes.denied === undefined ? nodeNameOf(agent) : undefined;
    const node = nodeName === undefined ? undefined : nodes.get(nodeName);
    const found = disruptionOf(podOf(name), node);
    const { incarnation } = agent.status ?? {};
    if (!incarnation) return found;
    const process = `${name}/${incarnation}`;
    if (found) remember(process, found);
    // The disruption was called off. A Pod or node that is gone altogether calls nothing off.
    else if (disrupted.has(process) && !isPodGone(name)) {
      if (node || disrupted.get(process)?.reason !== 'NodeCordoned') disrupted.delete(process);
    }
    return found;
  }

  function remember(process: string, disruption: Disruption): void {
    disrupted.delete(process);
    disrupted.set(process, disruption);
    for (const oldest of disrupted.keys()) {
      if (disrupted.size <= REMEMBERED) break;
      disrupted.delete(oldest);
    }
  }

  /** Returns whether the Pod in which the agent says it runs is gone. */
  function isPodGone(name: string): boolean {
    if (!pods.hasSynced || pods.denied !== undefined) return false;
    const agent = agents.get(name);
    const pod = pods.get(name, namespace);
    // Kubernetes removes the GpuAgent with its Pod. GpuAgents without a Pod stay while they have work.
    if (!agent) return pod === undefined;
    const owner = agent.metadata.ownerReferences?.find(({ kind }) => kind === 'Pod');
    return owner !== undefined && owner.uid !== pod?.metadata.uid;
  }

  return {
    run: nodes.run,
    async known(signal) {
      const until = AbortSignal.any([signal, AbortSignal.timeout(SYNC_WITHIN_MS)]);
      await Promise.all([nodes, pods].map((each) => settled(each, until)));
    },
    of,
    endOf(name, incarnation) {
      const agent = agents.get(name);
      if (agent?.status?.incarnation === incarnation) of(agent);
      const known = disrupted.get(`${name}/${incarnation}`);
      if (known !== undefined) return known.message;
      const isOther = agent?.status?.incarnation !== undefined && agent.status.incarnation !== incarnation;
      return !isOther && isPodGone(name) ? 'Its Pod was deleted.' : undefined;
    },
    told: {
      nodes: () => toldOf(nodes, 'cordons are not seen'),
      pods: () => toldOf(pods, 'deletions of Pods are not seen'),
    },
  };
}

function toldOf({ denied, hasSynced }: Pick<Reflector<NodeObject>, 'denied' | 'hasSynced'>, without: string) {
  if (denied !== undefined) return `not watched, ${without} (${denied})`;
  return hasSynced ? 'ok' : `not read yet, ${without}`;
}

/** Resolves when the list has been read or denied, or the signal aborts. */
async function settled(
  reflector: Pick<Reflector<NodeObject>, 'denied' | 'waitForSync'>,
  signal: AbortSignal,
): Promise<void> {
  const stop = new AbortController();
  const asking = setInterval(() => {
    if (reflector.denied !== undefined) stop.abort(new Error('denied'));
  }, 20);
  await reflector.waitForSync(AbortSignal.any([signal, stop.signal])).catch(() => {});
  clearInterval(asking);
}
