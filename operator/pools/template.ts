import { createHash } from 'node:crypto';
import type { AgentPool } from '@semblance/crds/gen/agentpools';
import { type AgentContainer, type ModelParts, withModelSets } from './model-sets.ts';
import { POOL_LABEL, type Pod, REVISION_LABEL } from './pod.ts';

type Container = AgentContainer;
type EnvVar = NonNullable<Container['env']>[number];
interface PodSpec {
  readonly containers: readonly Container[];
  readonly initContainers?: readonly object[];
  readonly volumes?: readonly { readonly name: string }[];
  readonly terminationGracePeriodSeconds?: number;
}

/** Part of a Pod's grace period for the end of the agent after its work, in seconds. */
const END_SECONDS = 20;
/** Grace period of a Pod that names none, in seconds. */
const DEFAULT_GRACE_SECONDS = 30;

/** Returns a hash of the template and of the names of the model sets, whatever the order of its fields. */
export function revisionOf({ spec: { template, modelSets = [] } }: AgentPool): string {
  const whole = modelSets.length > 0 ? { template, modelSets } : template;
  return createHash('sha256').update(canonical(whole)).digest('hex').slice(0, 10);
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, each]) => `${JSON.stringify(key)}:${canonical(each)}`).join()}}`;
}

const podSpecOf = (pool: AgentPool): PodSpec => pool.spec.template.spec as PodSpec;
const isAgent = (name: string, index: number, containers: readonly Container[]) =>
  containers.some((each) => each.name === 'agent') ? name === 'agent' : index === 0;

/** Returns a literal value that the template gives the agent; undefined for a reference. */
export function envOf(pool: AgentPool, name: string): string | undefined {
  const { containers } = podSpecOf(pool);
  const agent = containers.find((each, index) => isAgent(each.name, index, containers));
  return agent?.env?.find((each) => each.name === name)?.value;
}

/** Returns the Pod of an agent: the template, plus labels and environment that it leaves out. */
export function podOf(pool: AgentPool, name: string): Omit<Pod, 'apiVersion' | 'kind' | 'status'> {
  const { metadata, spec } = pool.spec.template;
  const podSpec = podSpecOf(pool);
  return {
    metadata: {
      name,
      namespace: pool.metadata.namespace,
      annotations: { ...metadata?.annotations },
      labels: {
        'app.kubernetes.io/component': 'agent',
        ...metadata?.labels,
        [POOL_LABEL]: pool.metadata.name ?? '',
        [REVISION_LABEL]: revisionOf(pool),
      },
      ownerReferences: [
        {
          apiVersion: 'semblance.dev/v1alpha1',
          kind: 'AgentPool',
          controller: true,
          name: pool.metadata.name ?? '',
          uid: pool.metadata.uid ?? '',
          blockOwnerDeletion: true,
        },
      ],
    },
    spec: { ...spec, ...partsOf(podSpec, pool.spec.modelSets ?? []) },
  };
}

/** Returns the parts of the Pod's spec in which it differs from the template. */
function partsOf(spec: PodSpec, sets: readonly string[]): Partial<PodSpec> {
  const models = new Map<Container, ModelParts>();
  const containers = spec.containers.map((container, index, all) => {
    if (!isAgent(container.name, index, all)) return container;
    const agent = { ...container, env: withIdentity(container.env ?? [], spec) };
    if (sets.length === 0) return agent;
    const parts = withModelSets(sets, agent, spec.volumes ?? []);
    models.set(container, parts);
    return parts.agent;
  });
  const [parts] = models.values();
  if (!parts) return { containers };
  return {
    containers,
    initContainers: [...(spec.initContainers ?? []), ...parts.initContainers],
    volumes: [...(spec.volumes ?? []), ...(parts.volumes as readonly { name: string }[])],
  };
}

/** Puts the missing variables first, because a value may refer only to variables before it. */
function withIdentity(env: readonly EnvVar[], { terminationGracePeriodSeconds }: PodSpec): EnvVar[] {
  const grace = terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS;
  const field = (name: string, fieldPath: string) => ({ name, valueFrom: { fieldRef: { fieldPath } } });
  const identity: EnvVar[] = [
    field('POD_IP', 'status.podIP'),
    field('SEMBLANCE_NAMESPACE', 'metadata.namespace'),
    field('SEMBLANCE_POD_NAME', 'metadata.name'),
    field('SEMBLANCE_POD_UID', 'metadata.uid'),
    field('SEMBLANCE_AGENT_NAME', 'metadata.name'),
    field('SEMBLANCE_AGENT_NODE', 'spec.nodeName'),
    { name: 'SEMBLANCE_AGENT_LISTEN', value: '0.0.0.0:9092' },
    { name: 'SEMBLANCE_AGENT_ADVERTISE', value: '$(POD_IP):9092' },
    { name: 'SEMBLANCE_AGENT_DRAIN_SECONDS', value: String(Math.max(0, grace - END_SECONDS)) },
  ];
  return [...identity.filter(({ name }) => !env.some((each) => each.name === name)), ...env];
}
