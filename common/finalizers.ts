/** Kept on a RenderJob by the operator while an agent may still work on it. */
export const AGENT_CLEANUP_FINALIZER = 'semblance.dev/agent-cleanup';

/** Kept on a job's RenderJob by the control plane until the job has been settled by what it says. */
export const SETTLEMENT_FINALIZER = 'semblance.dev/settlement';

interface Finalized {
  readonly metadata: { readonly finalizers?: readonly string[] };
}

export function hasFinalizer({ metadata }: Finalized, finalizer: string): boolean {
  return metadata.finalizers?.includes(finalizer) ?? false;
}

/** What remains when one is taken off. */
export function withoutFinalizer({ metadata }: Finalized, finalizer: string): string[] {
  return metadata.finalizers?.filter((name) => name !== finalizer) ?? [];
}
