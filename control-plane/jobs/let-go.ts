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

/** Tells whether it waits for its job to be settled: until then it cannot vanish. */
export function isKept(renderJob: RenderJob): boolean {
  return hasFinalizer(renderJob, SETTLEMENT_FINALIZER);
}

/**
 * It is to be deleted, and no agent works on it or can be given it any more: an attempt is written to it before it is
 * begun, and nothing is bound that is being deleted.
 */
export function isWithdrawn(renderJob: RenderJob): boolean {
  const { metadata, status } = renderJob;
  if (metadata.deletionTimestamp === undefined) return false;
  return !hasFinalizer(renderJob, AGENT_CLEANUP_FINALIZER) || (status?.attempt ?? 0) === 0;
}

/**
 * Takes the finalizer off RenderJobs whose jobs are settled, one write each. Nobody waits for it; a process that dies
 * before it is done finds the finalizer again when it starts.
 */
export function createLetGo({ client, reflector, namespace, logger }: LetGoOptions) {
  async function process(name: string): Promise<{ requeueAfterMs: number } | undefined> {
    const renderJob = reflector.get(name, namespace);
    if (!renderJob || !isKept(renderJob)) return;
    const clean = leavesNothingBehind(renderJob);
    // While the operator has to clean up, its own write is on the way, and the two would meet; that one is seen here.
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
      // Of one that is being deleted, this was the last anybody hears but the watch.
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
