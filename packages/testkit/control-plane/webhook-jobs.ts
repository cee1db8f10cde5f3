import type { Sql } from '@semblance/control-plane/storage/sql';

/**
 * Creates accounts with signing secrets and running jobs, for tests and benchmarks of many. The jobs use the given
 * callbacks in turn (null: none). Settling a job creates its delivery.
 * @returns ids of the jobs in order: job i has the account and the callback of index i modulo their number
 */
export async function seedJobs(
  sql: Sql,
  callbacks: readonly (string | null)[],
  jobs: number,
  accounts = 20,
): Promise<string[]> {
  for (let a = 0; a < accounts; a++) {
    const id = `acct-${a}`;
    await sql`insert into accounts (id, name, jobs_in_flight_limit) values (${id}, 'many', 1000000)`;
    await sql`insert into account_balances (account_id) values (${id})`;
    await sql`insert into webhook_secrets (account_id, secret) values (${id}, ${`whsec_${'k'.repeat(40)}${a}`})`;
    await sql`
      insert into ledger_transfers (account_id, kind, debit, credit, amount_micros)
      values (${id}, 'top_up', 'funding', 'available', 100000000000)`;
  }
  const ids = Array.from({ length: jobs }, (_, n) => `job-${String(n).padStart(26, '0')}`);
  for (let from = 0; from < jobs; from += 1_000) {
    const some = ids.slice(from, from + 1_000);
    await sql`
      insert into ledger_transfers (account_id, kind, debit, credit, amount_micros, job_id)
      select 'acct-' || (${from}::int + n - 1) % ${accounts}::int, 'hold', 'available', 'held', 80000, id
      from unnest(${some}::text[]) with ordinality as u(id, n)`;
    await sql`
      insert into jobs (id, account_id, capability, inputs, parameters, callback_url, status, hold_id, hold_micros,
                        rate_version, unit, rate_micros, minimum_micros)
      select h.job_id, h.account_id, 'face-swap-image', '{}', '{}', u.callback, 'processing', h.id, h.amount_micros, 1,
             'image', 40000, 40000
      from unnest(${some}::text[], ${some.map((_, n) => callbacks[(from + n) % callbacks.length])}::text[])
        as u(id, callback) join ledger_transfers h on h.job_id = u.id and h.kind = 'hold'`;
  }
  return ids;
}

/** Settles jobs as succeeded, as the control plane does. */
export async function settleJobs(sql: Sql, ids: readonly string[]): Promise<void> {
  await sql`
    select settle_job(id, null, jsonb_build_object('key', 'api/out-' || id, 'content_type', 'image/png',
      'size_bytes', 1, 'unit', 'image', 'milli_units', 1000), null, null, null, null)
    from unnest(${ids}::text[]) id`;
}
