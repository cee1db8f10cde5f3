/** A condition as RenderJob and GpuAgent have them. */
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
 * The conditions with one set. `lastTransitionTime` moves only when the status changes, as everywhere in Kubernetes.
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

/** The text, cut to `length` characters with an ellipsis. */
export function clip(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}
