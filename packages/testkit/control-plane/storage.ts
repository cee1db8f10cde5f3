import { createHash, randomBytes } from 'node:crypto';
import { createAccount, hashKey, limitKey } from '@semblance/control-plane/accounts/accounts';
import type { Submission } from '@semblance/control-plane/jobs/submission';
import { createSubmit } from '@semblance/control-plane/jobs/submit';
import { openDatabase } from '@semblance/control-plane/storage/database';
import { migrate, readMigrations } from '@semblance/control-plane/storage/migrate';
import { testPostgres } from '../servers/shared.ts';

/**
 * Time limits for tests of other subjects. On a machine that stands still, the limits of production would end
 * statements and release their locks.
 */
export const PATIENT = { statementTimeoutMs: 20_000, deadlineMs: 25_000, connectMs: 20_000 } as const;

/**
 * Creates a migrated database with helpers for tests of the books.
 * @param schema number of the last migration; default: all
 */
export async function testDatabase(schema?: number) {
  const pg = await testPostgres();
  await migrate(pg.url, (await readMigrations()).slice(0, schema));
  const database = openDatabase({ url: pg.url, ...PATIENT });
  const { sql } = database;
  return {
    url: pg.url,
    database,
    sql,
    /** Creates an account whose rate limit no test reaches, with one key and one uploaded file of each kind. */
    async account(usd = 10, perMinute = 1_000_000) {
      const made = await createAccount(sql, { name: 'test', balanceMicros: BigInt(Math.round(usd * 1e6)) });
      await limitKey(sql, made.keyId, perMinute);
      const files = { image: '', video: '', audio: '' };
      for (const kind of ['image', 'video', 'audio'] as const) {
        files[kind] = `api/up-${randomBytes(8).toString('hex')}`;
        await sql`
          insert into uploads (file_key, account_id, completed_at, kind, content_type, size_bytes, sha256)
          values (${files[kind]}, ${made.accountId}, now(), ${kind}, ${`${kind}/test`}, 1, ${createHash('sha256').digest()})`;
      }
      const submission = (more: Partial<Submission> = {}): Submission => ({
        accountId: made.accountId,
        capability: 'face-swap-image',
        inputs: { image: files.image, face: files.image },
        parameters: {},
        engineOptions: {},
        callbackUrl: undefined,
        idempotencyKey: undefined,
        ...more,
      });
      return { ...made, files, submission, caller: { keySha256: hashKey(made.apiKey) } };
    },
    /** Returns a submit function with the state of a separate control plane. */
    submitter: () => createSubmit({ database, onCommitted: () => {}, onUnknown: () => {}, webhooks: false }),
    /** Returns the same for a control plane that delivers webhooks. */
    submitterWithWebhooks: () =>
      createSubmit({ database, onCommitted: () => {}, onUnknown: () => {}, webhooks: true }),
    async balances(accountId: string) {
      const [row] = await sql<
        { available: bigint; held: bigint; spent: bigint; topped_up: bigint }[]
      >`select available_micros as available, held_micros as held, spent_micros as spent, topped_up_micros as topped_up
        from account_balances where account_id = ${accountId}`;
      if (!row) throw new Error('no such account');
      return row;
    },
    /** Returns the number of jobs in flight, as a submit reads it. */
    async holdsOpen(accountId: string) {
      const [row] = await sql<{ n: number }[]>`
        select holds_open as n from account_balances where account_id = ${accountId}`;
      return row?.n;
    },
    async faults(accountId: string) {
      return [...(await sql`select fault, expected::text, found::text from ledger_faults(${accountId})`)];
    },
    /** Returns how many rows of each of `tables` the control plane's connections have read so far. */
    async rowsRead(...tables: readonly string[]): Promise<number[]> {
      // Each connection reports its own counts, so every one must be asked. All are asked at once, because then
      // none is asked twice.
      const asked = [sql, database.fast].flatMap((pool) =>
        Array.from(
          { length: pool.pressure().open },
          () => pool`select pg_stat_force_next_flush(), pg_sleep(0.1)`,
        ),
      );
      await Promise.all(asked);
      const rows = await sql<{ relname: string; n: bigint }[]>`
        select relname, seq_tup_read + idx_tup_fetch as n from pg_stat_user_tables where relname = any(${tables})`;
      return tables.map((table) => Number(rows.find(({ relname }) => relname === table)?.n));
    },
    async close() {
      await database.close();
      await pg.close();
    },
  };
}

export type TestDatabase = Awaited<ReturnType<typeof testDatabase>>;

/** Returns the settlement of a success, in thousandths of an image. */
export function output(milliUnits = 1000) {
  return {
    key: 'api/out',
    content_type: 'image/png',
    size_bytes: 1,
    sha256: null,
    engine: null,
    unit: 'image',
    milli_units: milliUnits,
  };
}
