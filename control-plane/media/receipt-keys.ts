import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWK } from 'jose';
import type { Sql } from '../storage/sql.ts';

/** Algorithm of receipts: Ed25519 (RFC 8037). */
export const RECEIPT_ALGORITHM = 'EdDSA';

interface ReceiptKey {
  readonly id: string;
  readonly private_key: JWK;
  readonly public_key: JWK;
}

/** Returns the key that signs. The first call makes it; of several at once, one. */
export async function signingKey(sql: Sql): Promise<ReceiptKey> {
  const found = await current(sql);
  if (found) return found;
  const { privateKey, publicKey } = await generateKeyPair(RECEIPT_ALGORITHM, {
    crv: 'Ed25519',
    extractable: true,
  });
  const [secret, known] = await Promise.all([exportJWK(privateKey), exportJWK(publicKey)]);
  const id = await calculateJwkThumbprint(known);
  const shown = { ...known, kid: id, use: 'sig', alg: RECEIPT_ALGORITHM };
  await sql`
    insert into receipt_keys (id, private_key, public_key)
    values (${id}, ${sql.json({ ...secret, kid: id })}::jsonb, ${sql.json(shown)}::jsonb)
    on conflict do nothing`;
  const made = await current(sql);
  if (!made) throw new Error('the key of receipts vanished');
  return made;
}

async function current(sql: Sql): Promise<ReceiptKey | undefined> {
  const [row] = await sql<ReceiptKey[]>`
    select id, private_key, public_key from receipt_keys where retired_at is null`;
  return row;
}

/** Returns the public keys of all receipts there ever were, as a JSON Web Key Set. */
export async function publicKeys(sql: Sql): Promise<{ readonly keys: readonly JWK[] }> {
  await signingKey(sql);
  const rows = await sql<{ public_key: JWK }[]>`select public_key from receipt_keys order by created_at desc`;
  return { keys: rows.map((row) => row.public_key) };
}
