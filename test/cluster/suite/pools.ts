import type { AgentPool } from '@semblance/crds/gen/agentpools';
import { eventually } from '@semblance/testkit/stack/eventually';
import { type Agent, kubectl, list, type Pod } from './release.ts';

/** Name of the pool that the chart creates. */
export const CHARTS_POOL = 'agents';

export const poolOf = async (name: string) =>
  JSON.parse(await kubectl(['get', 'agentpool', name, '-o', 'json'])) as AgentPool;
export const podsOfPool = (name: string) => list<Pod>('pods', `semblance.dev/pool=${name}`);
export const conditionOfPool = ({ status }: AgentPool, type: string) =>
  status?.conditions?.find((each) => each.type === type) ?? { type, status: '', reason: '', message: '' };

type Spec = Omit<AgentPool['spec'], 'template'>;

/**
 * Creates a pool like the chart's, as a reader of the chart would write it; `env` replaces the environment of its
 * agents.
 */
export async function makePool(
  name: string,
  spec: Spec,
  env: Record<string, string> = {},
  change: (template: Template) => void = () => {},
): Promise<void> {
  const template = structuredClone((await poolOf(CHARTS_POOL)).spec.template) as unknown as Template;
  const [agent] = template.spec.containers;
  if (!agent) throw new Error('the pool of the chart has no container');
  const kept = agent.env.filter((each) => !(each.name in env));
  agent.env = [...kept, ...Object.entries(env).map(([key, value]) => ({ name: key, value }))];
  change(template);
  await kubectl.apply({
    apiVersion: 'semblance.dev/v1alpha1',
    kind: 'AgentPool',
    metadata: { name },
    spec: { ...spec, template },
  });
}

/** The part of a Pod's template that is changed here. */
export interface Template {
  spec: {
    terminationGracePeriodSeconds?: number;
    containers: {
      name: string;
      image: string;
      env: { name: string; value?: string }[];
      resources: { requests: Record<string, string>; limits: Record<string, string> };
    }[];
  };
}

/** Waits until the pool satisfies the condition. The error tells its last state. */
export async function untilPool(
  name: string,
  what: string,
  holds: (pool: AgentPool) => boolean,
  // As long as the wait for the first agent of a release.
  withinMs = 180_000,
): Promise<AgentPool> {
  return eventually(
    `pool ${name}: ${what}`,
    async () => {
      const pool = await poolOf(name);
      const now = pool.status?.observedGeneration === pool.metadata.generation;
      if (now && holds(pool)) return pool;
      throw new Error(JSON.stringify(pool.status));
    },
    { withinMs, everyMs: 250 },
  );
}

/** Tells whether exactly this many agents exist and take work. */
export const stands = (agents: number) => (pool: AgentPool) =>
  pool.status?.readyReplicas === agents &&
  pool.status.replicas === agents &&
  pool.status.desiredReplicas === agents;

export const agentOf = async (name: string) =>
  JSON.parse(await kubectl(['get', 'gpuagent', name, '-o', 'json'])) as Agent & { spec: { drain?: boolean } };
