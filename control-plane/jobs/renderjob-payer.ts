import type { KubeClient } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { withFaces } from '../faces/mapping.ts';
import type { Database } from '../storage/database.ts';
import type { Canceller } from './cancel.ts';
import {
  ensureRenderJob,
  type RenderJobOrder,
  RenderJobRefusedError,
  readOrder,
  readRenderJobLimits,
  renderJobFor,
} from './render-jobs.ts';
import type { Settler } from './settle.ts';
import { createTraced } from './traces.ts';

export interface RenderJobPayerOptions {
  readonly database: Database;
  readonly kube: KubeClient;
  readonly canceller: Canceller;
  readonly settler: Settler;
  readonly namespace: string;
  readonly logger: Logger;
  /** Resolves with whether the leading operator asks for texts. */
  readonly operatorReadsTexts: () => Promise<boolean>;
}

/** Creates the RenderJob that a submit owes. */
export function createRenderJobPayer(options: RenderJobPayerOptions) {
  const { database, kube, canceller, settler, namespace, logger, operatorReadsTexts } = options;
  const limits = remember(() => readRenderJobLimits(database.fast), 1_000);

  return async function payRenderJob(jobId: string, handed: RenderJobOrder | undefined) {
    const order = handed ?? (await readOrder(database.sql, jobId));
    if (!order || canceller.wasCancelled(jobId)) return void (await canceller.withdraw(jobId));
    try {
      const form = { digests: await operatorReadsTexts() };
      const parameters = await withFaces(database.fast, order);
      const wanted = renderJobFor({ ...order, parameters }, await limits(), namespace, form);
      const uid = await createTraced(database.sql, wanted, (traced) => ensureRenderJob(kube, traced));
      // The job was cancelled during the creation.
      if (canceller.wasCancelled(jobId)) await canceller.withdraw(jobId);
      return { renderJobUid: uid };
    } catch (error) {
      if (!(error instanceof RenderJobRefusedError)) throw error;
      logger.error({ err: error, jobId }, `cannot create the RenderJob of a job: ${error.message}`);
      await settler.fail(jobId, undefined, {
        code: 'processing_failed',
        message: 'The job could not be started.',
        reason: 'render_failed',
      });
      return;
    }
  };
}

/** Caches a reading for `maxAgeMs`; a failed one is not cached. */
function remember<T>(read: () => Promise<T>, maxAgeMs: number): () => Promise<T> {
  let kept: { readonly value: Promise<T>; readonly at: number } | undefined;
  return () => {
    if (kept && performance.now() - kept.at < maxAgeMs) return kept.value;
    const value = read();
    kept = { value, at: performance.now() };
    value.catch(() => {
      kept = undefined;
    });
    return value;
  };
}
