import { isDeepStrictEqual } from 'node:util';
import { compactVerify, createLocalJWKSet, type JSONWebKeySet } from 'jose';

/** Type in the header of a receipt's signature. */
export const RECEIPT_TYPE = 'deletion-receipt+jws';

/** What a receipt states: the object store confirmed at `deleted_at` that the file is gone. */
export interface Statement {
  readonly statement: 'deleted';
  /** `preview`: the thumbnail of an output. */
  readonly kind: 'upload' | 'output' | 'preview' | 'crop';
  /** Key of the file: of an upload its `file_key`. */
  readonly object_key: string;
  /** Job that made the file; null: an upload. */
  readonly job_id: string | null;
  readonly account_id: string;
  readonly size_bytes: number;
  /** Of the file's bytes, in hex; null: not known. */
  readonly sha256: string | null;
  readonly requested_by: 'owner' | 'admin' | 'retention';
  /** From then on nobody could use the file. ISO 8601 UTC, as `deleted_at`. */
  readonly removed_at: string;
  readonly deleted_at: string;
  /** Installation that signs. */
  readonly service: string;
}

/** A receipt does not prove what it says. */
export class InvalidReceiptError extends Error {
  override readonly name = 'InvalidReceiptError';
  readonly code = 'invalid_receipt';
  readonly retryable = false;
}

/**
 * Checks receipts without the service: one, a list of them, or a page as `GET /receipts` answers it.
 * @param keys JSON Web Key Set, as `GET /receipts/keys` answers it
 * @returns what is proven, in the order of the receipts
 * @throws InvalidReceiptError
 */
export async function verifyReceipts(receipts: unknown, keys: unknown): Promise<Statement[]> {
  const key = localKeys(keys);
  const list = receiptsIn(receipts);
  if (list.length === 0) throw new InvalidReceiptError('there is no receipt in the file');
  return Promise.all(list.map((receipt, i) => verified(receipt, `receipt ${i + 1} of ${list.length}`, key)));
}

function localKeys(keys: unknown): ReturnType<typeof createLocalJWKSet> {
  try {
    return createLocalJWKSet(keys as JSONWebKeySet);
  } catch (error) {
    throw new InvalidReceiptError('the keys are no JSON Web Key Set', { cause: error });
  }
}

function receiptsIn(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  const { receipts } = (value ?? {}) as { receipts?: unknown };
  return Array.isArray(receipts) ? receipts : [value];
}

async function verified(
  receipt: unknown,
  which: string,
  key: ReturnType<typeof createLocalJWKSet>,
): Promise<Statement> {
  const { jws, statement } = (receipt ?? {}) as { jws?: unknown; statement?: unknown };
  if (typeof jws !== 'string') throw new InvalidReceiptError(`${which} has no signature (jws)`);
  let proven: Statement;
  try {
    const { payload, protectedHeader } = await compactVerify(jws, key, { algorithms: ['EdDSA', 'Ed25519'] });
    if (protectedHeader.typ !== RECEIPT_TYPE) throw new Error('it is the signature of something else');
    proven = JSON.parse(Buffer.from(payload).toString()) as Statement;
  } catch (error) {
    throw new InvalidReceiptError(
      `${which} is not signed by one of these keys: ${(error as Error).message}`,
      {
        cause: error,
      },
    );
  }
  // People read the statement beside the signature.
  if (statement !== undefined && !isDeepStrictEqual(statement, proven))
    throw new InvalidReceiptError(`${which} shows another statement than the signed one`);
  return proven;
}
