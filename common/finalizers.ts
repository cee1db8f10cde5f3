/**
 * Finalizer on a RenderJob while an agent may still work on it. The control plane creates its RenderJobs with it,
 * which saves the write that would add it. The operator adds it to any other RenderJob before the first attempt.
 */
export const AGENT_CLEANUP_FINALIZER = 'semblance.dev/agent-cleanup';

/**
 * Finalizer that the control plane keeps on the RenderJob of a job until it has settled the job from the
 * RenderJob's status.
 */
export const SETTLEMENT_FINALIZER = 'semblance.dev/settlement';

interface Finalized {
  readonly metadata: { readonly finalizers?: readonly string[] };
}

export function hasFinalizer({ metadata }: Finalized, finalizer: string): boolean {
  return metadata.finalizers?.includes(finalizer) ?? false;
}

/** Returns the object's finalizers without those in `off`. */
export function withoutFinalizers({ metadata }: Finalized, ...off: readonly string[]): string[] {
  return metadata.finalizers?.filter((name) => !off.includes(name)) ?? [];
}

/**
 * Tells whether no agent holds anything of a RenderJob that has finished or is being deleted: it had no attempt, or
 * its only attempt brought the output. Then nothing needs cleanup, and whoever removes the other finalizer removes
 * AGENT_CLEANUP_FINALIZER in the same write.
 */
export function leavesNothingBehind({
  status,
}: {
  readonly status?: { readonly phase?: string; readonly attempt?: number };
}): boolean {
  const attempt = status?.attempt ?? 0;
  return attempt === 0 || (attempt === 1 && status?.phase === 'Succeeded');
}
