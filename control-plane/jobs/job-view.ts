import type { ObjectStore } from '#common/objects/store.ts';
import type { Job } from '#proto/semblance/control/v1/control.ts';
import type { JobRow } from './job-row.ts';

export interface JobViewOptions {
  readonly objects: ObjectStore;
  readonly now?: () => number;
  /** Links kept so that reads of the same job do not sign again. Default 5000. */
  readonly cacheSize?: number;
}

export interface JobView {
  /**
   * The job as its owner sees it, in the API and in webhooks.
   * @param linkSeconds lifetime of signed links
   */
  show(row: JobRow, linkSeconds: number): Promise<Job>;
}

/**
 * Signs output links so that reading a job again gives the same link: the signature dates from the beginning of a
 * window that is counted from the job's end. A window is half a lifetime long, so every link given out is good for at
 * least the other half.
 */
export function createJobView({ objects, now = Date.now, cacheSize = 5_000 }: JobViewOptions): JobView {
  const links = new Map<string, Promise<string>>();

  function outputLink(key: string, settledAt: Date, linkSeconds: number): Promise<string> {
    const signedAt = windowStart(settledAt, linkSeconds, now());
    const name = `${signedAt.getTime()} ${linkSeconds} ${key}`;
    const known = links.get(name);
    if (known) return known;
    const link = objects.signGet(key, { expiresInSeconds: linkSeconds, signedAt, audience: 'public' });
    link.catch(() => links.delete(name));
    links.set(name, link);
    for (const oldest of links.keys()) {
      if (links.size <= cacheSize) break;
      links.delete(oldest);
    }
    return link;
  }

  return {
    async show(row, linkSeconds) {
      const output =
        row.status === 'succeeded' && row.outputKey !== null && row.settledAt !== null
          ? await outputLink(row.outputKey, row.settledAt, linkSeconds)
          : undefined;
      return {
        id: row.id,
        status: row.status,
        outputUrl: output,
        chargedMicros: row.chargedMicros ?? undefined,
        error:
          row.errorCode === null
            ? undefined
            : { code: row.errorCode, message: row.errorMessage ?? 'The render did not complete.' },
      };
    },
  };
}

/** The latest multiple of half a lifetime after `settledAt` that is not in the future, to the second. */
export function windowStart(settledAt: Date, linkSeconds: number, now: number): Date {
  const start = Math.floor(settledAt.getTime() / 1000);
  const half = Math.max(1, Math.floor(linkSeconds / 2));
  const windows = Math.max(0, Math.floor((Math.floor(now / 1000) - start) / half));
  return new Date((start + windows * half) * 1000);
}
