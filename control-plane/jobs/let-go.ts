import { createWorkQueue } from '@semblance/common/async/work-queue';
import {
  AGENT_CLEANUP_FINALIZER,
  hasFinalizer,
  leavesNothingBehind,
  SETTLEMENT_FINALIZER,
  withoutFinalizers,
} from '@semblance/common/finalizers';
import { isKubeError, type KubeClient, type Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { RENDERJOB_RESOURCE, type RenderJob } from '@semblance/crds/gen/renderjobs';

export interface LetGoOptions {
  readonly client: KubeClient;
  readonly reflector: Pick<Reflector<RenderJob>, 'get' | 'note'>;
  readonly namespace: string;
  readonly logger: Logger;
}

/** Returns whether it waits for its job to be settled; until then it cannot vanish. */
export function isKept(renderJob: RenderJob): boolean {
  return hasFinalizer(renderJob, SETTLEMENT_FINALIZER);
}

/**
 * Returns whether it is to be deleted and no agent works on it or can get it: an attempt is written to it before it
 * begins, and nothing is bound to a resource that is being deleted.
 */
export function isWithdrawn(renderJob: RenderJob): boolean {
  const { metadata, status } = renderJob;
  if (metadata.deletionTimestamp === undefined) return false;
  return !hasFinalizer(renderJob, AGENT_CLEANUP_FINALIZER) || (status?.attempt ?? 0) === 0;
}

/**
 * Removes the finalizer of RenderJobs whose jobs are settled, with one write each. Nobody waits for it; a process
 * that starts finds the finalizers that a dead one left.
 */
export function createLetGo({ client, reflector, namespace, logger }: LetGoOptions) {
  async function process(name: string): Promise<{ requeueAfterMs: number } | undefined> {
    const renderJob = reflector.get(name, namespace);
    if (!renderJob || !isKept(renderJob)) return;
    const clean = leavesNothingBehind(renderJob);
    // While the operator has to clean up, its own write is on the way and would conflict; that write is seen here.
    if (!clean && hasFinalizer(renderJob, AGENT_CLEANUP_FINALIZER)) return;
    const { uid, resourceVersion, deletionTimestamp } = renderJob.metadata;
    const finalizers = withoutFinalizers(
      renderJob,
      SETTLEMENT_FINALIZER,
      ...(clean ? [AGENT_CLEANUP_FINALIZER] : []),
    );
    try {
      const written = await client.mergePatch(
        RENDERJOB_RESOURCE,
        { name, namespace },
        { metadata: { uid, resourceVersion, finalizers } },
      );
      // For a resource that is being deleted, only the watch reports more.
      if (!deletionTimestamp) reflector.note(written);
      return;
    } catch (error) {
      if (!isKubeError(error, 'not_found', 'conflict')) throw error;
      const found = await client.find(RENDERJOB_RESOURCE, { name, namespace });
      if (!found || found.metadata.uid !== uid) return;
      reflector.note(found);
      return { requeueAfterMs: 5 };
    }
  }
  return createWorkQueue({ name: 'let-go', concurrency: 4, logger, process, maxDelayMs: 5_000 });
}
