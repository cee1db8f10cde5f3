import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';

/**
 * Returns the slot time of a RenderJob's last attempt in ms, until it finished or was deleted; undefined when none began,
 * or the last one ended and another is due.
 */
export function slotTimeOf({ metadata, status }: RenderJob, slots = 1): number | undefined {
  const began = Date.parse(status?.startTime ?? '');
  const ended = Date.parse(status?.completionTime ?? metadata.deletionTimestamp ?? '');
  return ended > began ? (ended - began) * slots : undefined;
}

/** Returns how many slots an attempt takes on the agent that a RenderJob is bound to; 1 when that agent is gone. */
export function slotsOn(agent: GpuAgent | undefined, { spec }: RenderJob): number {
  // The first engine that offers a capability is the one the agent uses.
  const offer = agent?.status?.engines
    ?.flatMap(({ capabilities }) => capabilities)
    .find(({ name }) => name === spec.capability);
  return offer?.slots ?? 1;
}
