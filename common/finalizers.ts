/**
 * Kept on a RenderJob while an agent may still work on it. The control plane makes its own with it, which spares the
 * write that would put it on; on any other the operator puts it before the first attempt.
 */
export const AGENT_CLEANUP_FINALIZER = 'semblance.dev/agent-cleanup';

/** Kept on a job's RenderJob by the control plane until the job has been settled by what it says. */
export const SETTLEMENT_FINALIZER = 'semblance.dev/settlement';

interface Finalized {
  readonly metadata: { readonly finalizers?: readonly string[] };
}

export function hasFinalizer({ metadata }: Finalized, finalizer: string): boolean {
  return metadata.finalizers?.includes(finalizer) ?? false;
}

/** Returns what remains when these are taken off. */
export function withoutFinalizers({ metadata }: Finalized, ...off: readonly string[]): string[] {
  return metadata.finalizers?.filter((name) => !off.includes(name)) ?? [];
}

/**
 * Of a RenderJob that has finished or is being deleted: no attempt was ever made, or its only one brought the result.
 * Then its agent holds nothing and nothing is to be swept; whoever takes the other finalizer off takes
 * AGENT_CLEANUP_FINALIZER off with it, in one write.
 */
export function leavesNothingBehind({
  status,
}: {
  readonly status?: { readonly phase?: string; readonly attempt?: number };
}): boolean {
  const attempt = status?.attempt ?? 0;
  return attempt === 0 || (attempt === 1 && status?.phase === 'Succeeded');
}
