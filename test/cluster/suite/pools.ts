import type { AgentPool } from '@semblance/crds/gen/agentpools';
import { eventually } from '@semblance/testkit/stack/eventually';
import { type Agent, kubectl, list, type Pod } from './release.ts';

/** The pool that the chart makes. */
export const CHARTS_POOL = 'agents';

export const poolOf = async (name: string) =>
  JSON.parse(await kubectl(['get', 'agentpool', name, '-o', 'json'])) as AgentPool;
export const podsOfPool = (name: string) => list<Pod>('pods', `semblance.dev/pool=${name}`);
export const conditionOfPool = ({ status }: AgentPool, type: string) =>
  status?.conditions?.find((each) => each.type === type) ?? { type, status: '', reason: '', message: '' };

type Spec = Omit<AgentPool['spec'], 'template'>;

/** A pool of the chart's agents, as somebody would write it who has looked at the chart's; `env` in place of its own. */
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

/** As much of a Pod's template as is changed here. */
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

/** Waits until the pool is as it is to be; says how it was last. */
export async function untilPool(
  name: string,
  what: string,
  holds: (pool: AgentPool) => boolean,
  // As long as the first agent of a release is waited for.
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

/** So many agents take work, and there are no others. */
export const stands = (agents: number) => (pool: AgentPool) =>
  pool.status?.readyReplicas === agents &&
  pool.status.replicas === agents &&
  pool.status.desiredReplicas === agents;

export const agentOf = async (name: string) =>
  JSON.parse(await kubectl(['get', 'gpuagent', name, '-o', 'json'])) as Agent & { spec: { drain?: boolean } };
