import type { AgentPool } from '@semblance/crds/gen/agentpools';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';

/** The name of a pool, and what the operator appends to it for that of an agent. */
const ENDING = /^(.+)-[a-z0-9]{1,10}$/;

/** Returns the name of the pool that an agent belongs to; undefined for an agent of none. */
export function poolOf(
  { metadata }: Pick<GpuAgent, 'metadata'>,
  pools: readonly Pick<AgentPool, 'metadata'>[],
): string | undefined {
  const [, name] = ENDING.exec(metadata.name ?? '') ?? [];
  return pools.some((pool) => pool.metadata.name === name) ? name : undefined;
}
