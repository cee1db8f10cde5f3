import type { GpuAgent } from '@semblance/crds/gen/gpuagents';

/** Returns the agents that take work of a capability: those with most free slots first. */
export function readyFor(all: readonly GpuAgent[], capability: string): GpuAgent[] {
  const ready = all.flatMap((agent) => {
    const { status } = agent;
    const isReady = status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True');
    const can = status?.engines?.some(({ capabilities }) =>
      capabilities.some(({ name }) => name === capability),
    );
    if (!status?.address || !isReady || !can || status.draining) return [];
    return {
      agent,
      free: (status.slots ?? 0) - (status.slotsUsed ?? 0),
      place: Math.random(),
    };
  });
  return ready.sort((a, b) => b.free - a.free || a.place - b.place).map(({ agent }) => agent);
}
