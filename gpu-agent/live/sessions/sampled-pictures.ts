import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { RenderError } from '@semblance/engine-api/engine';
import type { LiveCapability } from '@semblance/engine-api/live-engine';
import type { AttemptDir, WorkDir } from '../../assets/work-dir.ts';
import type { ContentChecks } from '../../content-check/content-checks.ts';
import type { SessionEnd } from './session-table.ts';

/** Samples in a row that could not be checked, after which the session ends. */
const MOST_FAILURES = 3;

export interface PictureSamplerOptions {
  readonly contentChecks: Pick<ContentChecks, 'assertAllowed'>;
  /** Least time between two samples of a session, in ms; 0: none are taken. */
  readonly everyMs: number;
  readonly workDir: Pick<WorkDir, 'attempt'>;
  readonly logger: Logger;
}

/** The session whose pictures are sampled. */
export interface SampledSession {
  readonly id: string;
  readonly capability: LiveCapability;
  end(end: SessionEnd): Promise<void>;
}

export interface PictureSampler {
  /** Takes a copy of the picture when the next sample is due and the one before is decided. */
  offer(picture: Uint8Array): void;
  /** Takes no more samples, and removes their file. */
  stop(): void;
}

export type SamplePictures = (session: SampledSession) => PictureSampler | undefined;

/**
 * Checks samples of the pictures that clients send, beside the stream, which does not wait. A rejected picture ends its
 * session, and so do several samples in a row that no check could decide.
 */
export function pictureSampler(options: PictureSamplerOptions): SamplePictures {
  const { everyMs } = options;
  return (session) => (everyMs > 0 ? sample(session, options) : undefined);
}

function sample(
  session: SampledSession,
  { contentChecks, everyMs, workDir, logger: parent }: PictureSamplerOptions,
): PictureSampler {
  const logger = parent.child({ sessionId: session.id, capability: session.capability });
  const stopping = new AbortController();
  const { signal } = stopping;
  let dir: Promise<AttemptDir> | undefined;
  let deciding: Promise<void> | undefined;
  let lastAt = Number.NEGATIVE_INFINITY;
  let failures = 0;

  async function decide(picture: Uint8Array): Promise<void> {
    try {
      dir ??= workDir.attempt(`sample-${session.id}`);
      const path = join((await dir).inputs, 'picture');
      await writeFile(path, picture);
      const { id: jobName, capability } = session;
      const files = [{ role: 'picture', path, kind: 'image' as const }];
      const subject = { phase: 'input' as const, jobName, capability, parameters: {}, files };
      await contentChecks.assertAllowed(subject, { signal, logger });
      failures = 0;
    } catch (error) {
      if (!signal.aborted) await refuse(error);
    }
  }

  async function refuse(error: unknown): Promise<void> {
    if (error instanceof RenderError && error.code === 'content_rejected') {
      await session.end({ reason: 'cancelled', message: 'a picture of this session is not allowed here' });
      return;
    }
    // The engine answers for a picture that cannot be read.
    if (error instanceof RenderError) return;
    failures++;
    logger.warn({ err: error }, `cannot check a picture of a session: ${describeError(error)}`);
    if (failures >= MOST_FAILURES)
      await session.end({ reason: 'render_failed', message: 'a content check did not work' });
  }

  return {
    offer(picture) {
      const now = performance.now();
      if (deciding || signal.aborted || now - lastAt < everyMs) return;
      lastAt = now;
      // The engine takes the memory of the picture.
      deciding = decide(new Uint8Array(picture)).finally(() => {
        deciding = undefined;
      });
    },
    stop() {
      if (signal.aborted) return;
      stopping.abort(new Error('the session ended'));
      void (async () => {
        await deciding;
        await (await dir)?.remove();
      })().catch((error: unknown) =>
        logger.error({ err: error }, `cannot remove a sampled picture: ${describeError(error)}`),
      );
    },
  };
}
