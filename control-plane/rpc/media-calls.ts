import type { CallContext } from '@semblance/common/grpc/server';
import type {
  DeleteJobMediaRequest,
  DeleteJobMediaResponse,
  DeleteUploadRequest,
  DeleteUploadResponse,
  ListReceiptsRequest,
  ListReceiptsResponse,
  ReadReceiptKeysResponse,
} from '@semblance/proto/semblance/control/v1/control';
import type { Gate } from '../accounts/gate.ts';
import { removeJobMedia, removeUpload } from '../media/media.ts';
import { publicKeys } from '../media/receipt-keys.ts';
import { listReceipts } from '../media/receipts.ts';
import type { Removals } from '../media/removals.ts';
import type { Database } from '../storage/database.ts';

export interface MediaCallsOptions {
  readonly database: Database;
  readonly gate: Gate;
  readonly removals: Pick<Removals, 'payNow'>;
}

/**
 * Creates the calls by which owners delete their files: out of use with the commit, out of the store before the
 * answer, if the store answers.
 */
export function createMediaCalls({ database, gate, removals }: MediaCallsOptions) {
  return {
    async deleteJobMedia(
      { caller, jobId, inputs }: DeleteJobMediaRequest,
      { trailers }: CallContext,
    ): Promise<DeleteJobMediaResponse> {
      const { accountId, keyId } = await gate.admit(caller, trailers);
      const removed = await database.sql.begin((tx) =>
        removeJobMedia(tx, { jobId, accountId, inputs }, { by: 'owner', actor: keyId }),
      );
      await removals.payNow(removed.objectKeys);
      const { outputDeleted, deletedInputs, keptInputs } = removed;
      return { outputDeleted, deletedInputs, keptInputs };
    },

    async deleteUpload(
      { caller, fileKey }: DeleteUploadRequest,
      { trailers }: CallContext,
    ): Promise<DeleteUploadResponse> {
      const { accountId, keyId } = await gate.admit(caller, trailers);
      const removed = await database.sql.begin((tx) =>
        removeUpload(tx, { fileKey, accountId }, { by: 'owner', actor: keyId }),
      );
      await removals.payNow(removed.objectKeys);
      return {};
    },

    async listReceipts(
      { caller, ...asked }: ListReceiptsRequest,
      { trailers }: CallContext,
    ): Promise<ListReceiptsResponse> {
      const { accountId } = await gate.admit(caller, trailers);
      return listReceipts(database.fast, accountId, asked);
    },

    readReceiptKeys: async (): Promise<ReadReceiptKeysResponse> => ({
      keysJson: JSON.stringify(await publicKeys(database.sql)),
    }),
  };
}

export type MediaCalls = ReturnType<typeof createMediaCalls>;
