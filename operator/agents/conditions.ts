import type { GpuAgent, GpuAgentStatus } from '#crds/gen/gpuagents.ts';
import { withCondition } from '../conditions.ts';
import type { Readiness } from './view.ts';

/** The part of a GpuAgent's status that the operator owns. */
export type OwnedStatus = Pick<GpuAgentStatus, 'slotsUsed' | 'conditions' | 'observedGeneration'>;

export interface AgentSnapshot {
  readonly agent: GpuAgent;
  readonly readiness: Readiness;
  readonly slotsUsed: number;
  /** Unix milliseconds. */
  readonly now: number;
}

/** What the operator has to say of an agent: the status to write, or undefined when it says so already. */
export function reconcileAgent({ agent, readiness, slotsUsed, now }: AgentSnapshot): OwnedStatus | undefined {
  const { status, metadata } = agent;
  const { ready, reason, message } = readiness;
  const observedGeneration = metadata.generation;
  const before = status?.conditions?.find(({ type }) => type === 'Ready');
  const same =
    before?.status === (ready ? 'True' : 'False') &&
    before.reason === reason &&
    before.message === message &&
    status?.slotsUsed === slotsUsed &&
    status.observedGeneration === observedGeneration;
  if (same) return undefined;
  const condition = {
    type: 'Ready',
    status: ready ? 'True' : 'False',
    reason,
    message,
    observedGeneration,
  } as const;
  return { slotsUsed, observedGeneration, conditions: withCondition(status?.conditions, condition, now) };
}
