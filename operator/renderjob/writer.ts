import type { KubeClient, Reflector } from '@semblance/common/kube/index';
import { RENDERJOB_RESOURCE, type RenderJob, type RenderJobStatus } from '@semblance/crds/gen/renderjobs';
import { isHeld } from './status.ts';
import { FINALIZER } from './types.ts';

export interface JobWriterOptions {
  readonly client: KubeClient;
  readonly jobs: Pick<Reflector<RenderJob>, 'note'>;
}

/**
 * Writes to RenderJobs. Every write is conditional on the version it was decided from (else KubeError `conflict`).
 * The answer goes into the local copy, so that the next decision sees it.
 */
export interface JobWriter {
  /** Adds the finalizer. */
  hold(job: RenderJob, signal: AbortSignal): Promise<RenderJob>;
  writeStatus(job: RenderJob, status: RenderJobStatus, signal: AbortSignal): Promise<RenderJob>;
  /** Removes the finalizer. */
  release(job: RenderJob, signal: AbortSignal): Promise<void>;
  delete(job: RenderJob, signal: AbortSignal): Promise<void>;
  /** Reads the job again after a write conflict. @returns false when it is gone */
  refresh(job: RenderJob, signal: AbortSignal): Promise<boolean>;
}

export function createJobWriter({ client, jobs }: JobWriterOptions): JobWriter {
  const refOf = ({ metadata }: RenderJob) => ({ namespace: metadata.namespace, name: metadata.name ?? '' });
  const precondition = ({ metadata }: RenderJob) => {
    const { uid, resourceVersion } = metadata;
    return { uid, resourceVersion };
  };

  return {
    async hold(job, signal) {
      if (isHeld(job)) return job;
      const metadata = { ...refOf(job), ...precondition(job), finalizers: [FINALIZER] };
      const written = await client.apply(RENDERJOB_RESOURCE, { metadata }, { signal });
      jobs.note(written);
      return written;
    },
    async writeStatus(job, status, signal) {
      const written = await client.apply(
        RENDERJOB_RESOURCE,
        { metadata: { ...refOf(job), ...precondition(job) }, status },
        { subresource: 'status', signal },
      );
      jobs.note(written);
      return written;
    },
    async release(job, signal) {
      const finalizers = job.metadata.finalizers?.filter((name) => name !== FINALIZER) ?? [];
      const metadata = { ...precondition(job), finalizers };
      // A merge patch removes the finalizer whoever set it.
      const written = await client.mergePatch(RENDERJOB_RESOURCE, refOf(job), { metadata }, { signal });
      // A deleted object may be gone after this write, and only the watch reports that.
      if (!job.metadata.deletionTimestamp) jobs.note(written);
    },
    async delete(job, signal) {
      await client.delete(RENDERJOB_RESOURCE, refOf(job), { ...precondition(job), signal });
    },
    async refresh(job, signal) {
      const found = await client.find(RENDERJOB_RESOURCE, refOf(job), { signal });
      const same = found?.metadata.uid === job.metadata.uid;
      if (found && same) jobs.note(found);
      return same;
    },
  };
}
