import type { Job } from '@semblance/proto/semblance/control/v1/control';
import type { Findings } from '@semblance/proto/semblance/engine/v1/findings';
import { createSignedLinks, type SignedLinksOptions } from '../media/signed-links.ts';
import type { JobRow, StoredFindings } from './job-row.ts';

export interface JobView {
  /**
   * Returns the job as its owner sees it, in the API and in webhooks.
   * @param linkSeconds lifetime of signed links
   * @param keyId API key that asks, with which the links end; undefined: they are for the account
   */
  show(row: JobRow, linkSeconds: number, keyId?: string): Promise<Job>;
}

/** Reading a job again gives the same link within a window that is counted from the job's end. */
export function createJobView(options: SignedLinksOptions): JobView {
  const links = createSignedLinks(options);
  const { now = Date.now } = options;
  return {
    async show(row, linkSeconds, keyId) {
      const { outputKey, settledAt, outputExpiresAt: until } = row;
      // What has expired is not shown any more, although only the next sweep deletes it. Links last whole seconds, so
      // in the last one there is none that does not outlive it.
      const expired = until !== null && until.getTime() - now() < 1_000;
      const output =
        row.status === 'succeeded' && outputKey !== null && settledAt !== null && !expired
          ? await links.to(outputKey, settledAt, linkSeconds, {
              filename: outputName(outputKey, row),
              until,
              keyId,
            })
          : undefined;
      const preview =
        output !== undefined && row.previewKey !== null && settledAt !== null
          ? await links.to(row.previewKey, settledAt, linkSeconds, {
              filename: outputName(row.previewKey, row).replace(/\.jpg$/, '-preview.jpg'),
              until,
              keyId,
            })
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
        details: row.findings ? asFindings(row.findings) : undefined,
        metadata: row.metadata ? { entries: { ...row.metadata } } : undefined,
        previewUrl: preview,
        expiresAt: output === undefined ? undefined : until?.toISOString(),
      };
    },
  };
}

/** Returns the name under which a client saves an output: capability, job, and the ending of its key. */
function outputName(key: string, { capability, id }: JobRow): string {
  const ending = /\.[a-z0-9]+$/.exec(key)?.[0] ?? '';
  return `${capability}-${id}${ending}`;
}

function asFindings({ models = [], options = {}, mapped = [], ...rest }: StoredFindings): Findings {
  return { ...rest, models, options, mapped };
}
