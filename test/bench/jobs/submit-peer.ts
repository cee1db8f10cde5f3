import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { migrate, readMigrations } from '@semblance/control-plane/storage/migrate';
import { createDatabase } from '@semblance/local/postgres';
import { dropDatabase } from '@semblance/testkit/servers/start';
import type { Stack } from '@semblance/testkit/stack/stack';
import postgres from 'postgres';
import { pgbench } from './pgbench.ts';

export const PEER_CLIENTS = [1, 4, 16, 32];

/** Submits per second, by number of clients. */
export type PeerRates = ReadonlyMap<number, number>;

export interface PeerOptions {
  readonly stack: Stack;
  /** Path of pgbench. */
  readonly tool: string;
  readonly accounts: number;
  readonly submits: number;
}

/**
 * Runs pgbench with a fresh database for each number of clients, because every job in flight makes further submits
 * slower.
 */
export async function runPeer({ stack, tool, accounts, submits }: PeerOptions): Promise<PeerRates> {
  const adminUrl = stack.read().postgres_url;
  const folder = await mkdtemp(join(tmpdir(), 'semblance-pgbench-'));
  const script = join(folder, 'submit.sql');
  const results = new Map<number, number>();
  try {
    await writeFile(script, scriptFor(accounts));
    for (const clients of PEER_CLIENTS) {
      const name = `bench_${randomUUID().slice(0, 8)}`;
      const url = await createDatabase(adminUrl, name);
      try {
        await migrate(url, await readMigrations());
        await seed(url, accounts);
        await pgbench({ tool, url, script, clients, transactions: 600 });
        results.set(clients, await pgbench({ tool, url, script, clients, transactions: submits }));
      } finally {
        await dropDatabase(adminUrl, name);
      }
    }
    return results;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Returns a pgbench script with the statement of control-plane/jobs/submit.ts, for one submit. */
const scriptFor = (accounts: number) => `\\set a random(1, ${accounts})
select place, (result).* from submit_jobs(jsonb_build_array(jsonb_build_object(
  'job', 'job-' || gen_random_uuid(), 'account', 'bench-' || :a::text, 'capability', 'face-swap-image',
  'inputs', jsonb_build_array(
    jsonb_build_object('role', 'image', 'key', 'api/image-' || :a::text, 'kind', 'image'),
    jsonb_build_object('role', 'face', 'key', 'api/face-' || :a::text, 'kind', 'image')),
  'parameters', '{}'::jsonb, 'callback', null, 'idempotency_key', gen_random_uuid()::text,
  'body_sha256', repeat('ab', 32)))) order by place;
`;

/** Creates the accounts, money and uploads that the script names, with limits that it does not reach. */
async function seed(url: string, accounts: number): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  try {
    await sql`update settings set jobs_in_flight = 1000000`;
    for (let a = 1; a <= accounts; a++) {
      const id = `bench-${a}`;
      await sql`insert into accounts (id, name, jobs_in_flight_limit) values (${id}, 'bench', 1000000)`;
      await sql`insert into account_balances (account_id) values (${id})`;
      await sql`
        insert into ledger_transfers (account_id, kind, debit, credit, amount_micros)
        values (${id}, 'top_up', 'funding', 'available', 100000000000)`;
      for (const role of ['image', 'face']) {
        await sql`
          insert into uploads (file_key, account_id, completed_at, kind, content_type, size_bytes, sha256)
          values (${`api/${role}-${a}`}, ${id}, now(), 'image', 'image/jpeg', 1, ${Buffer.alloc(32)})`;
      }
    }
  } finally {
    await sql.end();
  }
}
