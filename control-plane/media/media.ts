import { ApiError } from '@semblance/common/errors';
import { isObjectKey } from '@semblance/common/object-key';
import { isJobId } from '../jobs/job-row.ts';
import type { Transaction } from '../storage/sql.ts';
import { type Remover, removeOutput, removeUploads } from './removals.ts';

export interface RemovedMedia {
  readonly accountId: string;
  readonly outputDeleted: boolean;
  readonly deletedInputs: string[];
  /** Inputs that stay because an unfinished job uses them. */
  readonly keptInputs: string[];
  /** Objects whose deletion is now owed. */
  readonly objectKeys: string[];
}

interface JobMedia {
  readonly account_id: string;
  readonly ended: boolean;
  readonly inputs: Readonly<Record<string, string>>;
}

/**
 * Takes a job's files out of use: its output and, with `inputs`, the uploads that it was made from.
 * @param accountId owner of the job; undefined: anyone
 * @throws ApiError not_found; invalid_input while the job has not ended
 */
export async function removeJobMedia(
  tx: Transaction,
  job: { readonly jobId: string; readonly accountId: string | undefined; readonly inputs: boolean },
  remover: Remover,
): Promise<RemovedMedia> {
  const { jobId, accountId = null } = job;
  const [found] = isJobId(jobId)
    ? await tx<JobMedia[]>`
        select account_id, settled_at is not null as ended, inputs from jobs
        where id = ${jobId} and (${accountId}::text is null or account_id = ${accountId})`
    : [];
  if (!found) throw new ApiError('not_found', 'There is no such job.');
  if (!found.ended)
    throw new ApiError('invalid_input', 'The job has not ended: its files can be deleted when it has.');
  const fileKeys = job.inputs ? [...new Set(Object.values(found.inputs))] : [];
  // The job's row first, then the account's, as settlements lock them.
  const output = await removeOutput(tx, jobId, remover);
  const uploads = await removeUploads(tx, found.account_id, fileKeys, remover);
  const deletedInputs = uploads.fileKeys;
  const kept = await tx<{ file_key: string }[]>`
    select file_key from uploads where file_key = any(${fileKeys}::text[]) and account_id = ${found.account_id}`;
  return {
    accountId: found.account_id,
    outputDeleted: output.length > 0,
    deletedInputs,
    keptInputs: kept.map((row) => row.file_key),
    objectKeys: [...uploads.objectKeys, ...output],
  };
}

/**
 * Takes an upload out of use.
 * @param accountId owner of the upload; undefined: anyone
 * @throws ApiError not_found; invalid_input while an unfinished job or session uses it
 */
export async function removeUpload(
  tx: Transaction,
  upload: { readonly fileKey: string; readonly accountId: string | undefined },
  remover: Remover,
): Promise<RemovedMedia> {
  const { fileKey, accountId = null } = upload;
  const find = () => tx<{ account_id: string }[]>`
    select account_id from uploads
    where file_key = ${fileKey} and completed_at is not null and (${accountId}::text is null or account_id = ${accountId})`;
  const [found] = isObjectKey(fileKey) ? await find() : [];
  if (!found) throw new ApiError('not_found', 'There is no such upload.');
  const { fileKeys: deletedInputs, objectKeys } = await removeUploads(
    tx,
    found.account_id,
    [fileKey],
    remover,
  );
  if (deletedInputs.length === 0) {
    const [still] = await find();
    if (!still) throw new ApiError('not_found', 'There is no such upload.');
    throw new ApiError(
      'invalid_input',
      'A job or a session that has not ended uses this upload: it can be deleted when that has ended.',
    );
  }
  return {
    accountId: found.account_id,
    outputDeleted: false,
    deletedInputs,
    keptInputs: [],
    objectKeys,
  };
}
