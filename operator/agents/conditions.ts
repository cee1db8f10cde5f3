import { clip } from '@semblance/common/plain-text';
import type { GpuAgent, GpuAgentStatus } from '@semblance/crds/gen/gpuagents';
import { withCondition } from '../conditions.ts';
import type { Readiness } from './view.ts';

/** Limit of the CRD for the names shown in tables, in characters. */
const MAX_NAMES = 1_024;

/** The part of a GpuAgent's status that the operator owns. */
export type OwnedStatus = Pick<
  GpuAgentStatus,
  'slotsUsed' | 'liveUsed' | 'liveNames' | 'engineNames' | 'checkNames' | 'conditions' | 'observedGeneration'
>;

export interface AgentSnapshot {
  readonly agent: GpuAgent;
  readonly readiness: Readiness;
  readonly slotsUsed: number;
  /** Live sessions bound to the agent, by capability that it carries. */
  readonly liveUsed: ReadonlyMap<string, number>;
  /** Unix milliseconds. */
  readonly now: number;
}

/** Returns the status to write for an agent, or undefined when the resource already shows it. */
export function reconcileAgent(snapshot: AgentSnapshot): OwnedStatus | undefined {
  const { agent, readiness, slotsUsed, now } = snapshot;
  const { status, metadata } = agent;
  const { ready, reason, message } = readiness;
  const observedGeneration = metadata.generation;
  const before = status?.conditions?.find(({ type }) => type === 'Ready');
  const next = { slotsUsed, ...liveOf(snapshot), ...namesOf(agent), observedGeneration };
  const same =
    before?.status === (ready ? 'True' : 'False') &&
    before.reason === reason &&
    before.message === message &&
    Object.entries(next).every(([name, value]) => status?.[name as keyof typeof next] === value);
  if (same) return undefined;
  const condition = {
    type: 'Ready',
    status: ready ? 'True' : 'False',
    reason,
    message,
    observedGeneration,
  } as const;
  return { ...next, conditions: withCondition(status?.conditions, condition, now) };
}

/** Returns no fields for an agent that carries no live sessions. */
function liveOf({ agent, liveUsed }: AgentSnapshot): Pick<OwnedStatus, 'liveUsed' | 'liveNames'> {
  const live = agent.status?.live ?? [];
  if (live.length === 0) return {};
  const each = live.map(({ name, slots, warming }) => {
    const used = `${name} ${liveUsed.get(name) ?? 0}/${slots}`;
    return warming ? `${used} warming` : used;
  });
  let sum = 0;
  for (const used of liveUsed.values()) sum += used;
  return { liveUsed: sum, liveNames: clip(each.join(', '), MAX_NAMES) };
}

/** Joins the names, because tables show only the first entry of a list. */
function namesOf({ status }: GpuAgent): Pick<OwnedStatus, 'engineNames' | 'checkNames'> {
  const { engines, contentCheck } = status ?? {};
  return {
    ...(engines && { engineNames: clip(engines.map(({ name }) => name).join(','), MAX_NAMES) }),
    ...(contentCheck && { checkNames: clip(contentCheck.checks.join(','), MAX_NAMES) }),
  };
}
