import { clip } from '@semblance/common/plain-text';
/** Condition of a RenderJob, LiveSession, GpuAgent or AgentPool. */
export interface Condition {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
  readonly lastTransitionTime: string;
  readonly observedGeneration?: number;
}

const MAX_MESSAGE = 1_024;

/**
 * Returns the conditions with one set. As usual in Kubernetes, `lastTransitionTime` moves only when the status
 * changes.
 */
export function withCondition(
  conditions: readonly Condition[] | undefined,
  set: Omit<Condition, 'lastTransitionTime'>,
  now: number,
): Condition[] {
  const before = conditions?.find(({ type }) => type === set.type);
  const lastTransitionTime =
    before?.status === set.status ? before.lastTransitionTime : new Date(now).toISOString();
  const condition = { ...set, message: clip(set.message, MAX_MESSAGE), lastTransitionTime };
  return [...(conditions ?? []).filter(({ type }) => type !== set.type), condition];
}

export function withoutCondition(conditions: readonly Condition[], type: string): Condition[] {
  return conditions.filter((condition) => condition.type !== type);
}
