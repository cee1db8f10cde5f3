import type { GpuAgent } from '@semblance/crds/gen/gpuagents';

/** Returns the addresses of agents that take work of a capability: those with most free slots first. */
export function readyFor(all: readonly GpuAgent[], capability: string): string[] {
  const ready = all.flatMap(({ status }) => {
    const isReady = status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True');
    const can = status?.engines?.some(({ capabilities }) =>
      capabilities.some(({ name }) => name === capability),
    );
    if (!status?.address || !isReady || !can || status.draining) return [];
    return {
      address: status.address,
      free: (status.slots ?? 0) - (status.slotsUsed ?? 0),
      place: Math.random(),
    };
  });
  return ready.sort((a, b) => b.free - a.free || a.place - b.place).map(({ address }) => address);
}
