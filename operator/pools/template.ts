import { createHash } from 'node:crypto';
import type { AgentPool } from '@semblance/crds/gen/agentpools';
import { POOL_LABEL, type Pod, REVISION_LABEL } from './pod.ts';

interface EnvVar {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: unknown;
}
interface Container {
  readonly name: string;
  readonly env?: readonly EnvVar[];
}
interface PodSpec {
  readonly containers: readonly Container[];
  readonly terminationGracePeriodSeconds?: number;
}

/** Of the grace period of a Pod: what the agent keeps for its own end after its work. */
const END_SECONDS = 20;
/** States what Kubernetes gives a Pod that names no grace period. */
const DEFAULT_GRACE_SECONDS = 30;

/** Names a template by what it says, whatever the order in which it says it. */
export function revisionOf({ spec }: AgentPool): string {
  return createHash('sha256').update(canonical(spec.template)).digest('hex').slice(0, 10);
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

/** A value that the template gives the agent in words, not by reference. */
export function envOf(pool: AgentPool, name: string): string | undefined {
  const { containers } = podSpecOf(pool);
  const agent = containers.find((each, index) => isAgent(each.name, index, containers));
  return agent?.env?.find((each) => each.name === name)?.value;
}

/** The Pod of an agent: the template, and of labels and environment what it leaves out. */
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
    spec: {
      ...spec,
      containers: podSpec.containers.map((container, index, all) =>
        isAgent(container.name, index, all)
          ? { ...container, env: withIdentity(container.env ?? [], podSpec) }
          : container,
      ),
    },
  };
}

/** First what is missing: a value may refer only to variables before it. */
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
