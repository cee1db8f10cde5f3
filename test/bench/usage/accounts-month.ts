import { randomUUID } from 'node:crypto';
import { csvLine } from '@semblance/control-plane/admin/csv';
import { openDatabase } from '@semblance/control-plane/storage/database';
import { migrate, readMigrations } from '@semblance/control-plane/storage/migrate';
import { summarizeAccounts } from '@semblance/control-plane/usage/accounts-month';
import { summarizeUsage } from '@semblance/control-plane/usage/usage';
import { createDatabase } from '@semblance/local/postgres';
import { dropDatabase } from '@semblance/testkit/servers/start';
import postgres from 'postgres';
import { type BenchContext, limitRow, quantile, type Section } from '../lib/section.ts';

const ACCOUNTS = 10_000;
const MONTHS = 24;
const HOURS_A_MONTH = 20;
const OPEN_JOBS = 1_000;
const SAMPLES = 20;
const LIMIT_SEC = 1;
const MONTH = '2026-01';

/** Measures the sums of a month of all accounts, in a database with two years of their history. */
export async function runAccountsMonthBench({ stack, say }: BenchContext): Promise<Section> {
  const adminUrl = stack.read().postgres_url;
  const name = `bench_${randomUUID().slice(0, 8)}`;
  const url = await createDatabase(adminUrl, name);
  try {
    await migrate(url, await readMigrations());
    say(`usage: writing ${MONTHS} months of ${ACCOUNTS.toLocaleString('en')} accounts`);
    const rows = await seed(url);
    say('usage: reading');
    const { whole, single } = await measure(url);
    return {
      title: 'A month of all accounts',
      rows: [
        limitRow({
          name: `one statement, with its CSV, p50`,
          ours: quantile(whole, 0.5),
          limit: LIMIT_SEC,
          unit: 's',
        }),
        limitRow({
          name: `the slowest of ${SAMPLES}`,
          ours: Math.max(...whole),
          limit: LIMIT_SEC,
          unit: 's',
        }),
        {
          name: 'the same month of one account, as before one by one',
          ours: `${(quantile(single, 0.5) * 1000).toFixed(1)} ms`,
          ...{ peer: '', ratio: '', goal: '', met: '' },
        },
      ],
      notes: [
        `${ACCOUNTS.toLocaleString('en')} accounts, each with four capabilities in ${HOURS_A_MONTH} hours of each of ${MONTHS} months ` +
          `(${rows.hours.toLocaleString('en')} rows of hours, ${rows.months.toLocaleString('en')} of months), a top-up a month, and ` +
          `${OPEN_JOBS.toLocaleString('en')} jobs in flight among them.`,
      ],
    };
  } finally {
    await dropDatabase(adminUrl, name);
  }
}

async function seed(url: string): Promise<{ hours: number; months: number }> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  try {
    await sql.begin(async (tx) => {
      // Rows are written without triggers; statements below sum up what those would count.
      await tx`set local session_replication_role = 'replica'`;
      await tx`
        insert into accounts (id, name) select 'acct-' || n, 'Account ' || n from generate_series(1, ${ACCOUNTS}::int) n`;
      await tx`
        insert into usage_hours (account_id, hour, capability, succeeded, failed, spent_micros)
        select 'acct-' || n, timestamptz '2024-02-01T00:00:00Z' + m * interval '1 month' + h * interval '1 day', c, 9, 1, 360000
        from generate_series(1, ${ACCOUNTS}::int) n, generate_series(0, ${MONTHS - 1}::int) m,
             generate_series(0, ${HOURS_A_MONTH - 1}::int) h, unnest(array['face-swap-image', 'face-swap', 'avatar', 'lip-sync']) c
        where (h + n) % 4 = array_position(array['face-swap-image', 'face-swap', 'avatar', 'lip-sync'], c) - 1`;
      await tx`
        insert into usage_months
        select usage_month(hour), account_id, capability, sum(succeeded), sum(failed), sum(spent_micros)
        from usage_hours group by 1, 2, 3`;
      await tx`
        insert into ledger_transfers (account_id, kind, debit, credit, amount_micros, created_at)
        select 'acct-' || n, 'top_up', 'funding', 'available', 10000000, timestamptz '2024-02-02T00:00:00Z' + m * interval '1 month'
        from generate_series(1, ${ACCOUNTS}::int) n, generate_series(0, ${MONTHS - 1}::int) m`;
      await tx`
        insert into account_balances (account_id, available_micros, topped_up_micros)
        select id, 240000000, 240000000 from accounts`;
      await tx`
        insert into jobs (id, account_id, capability, inputs, parameters, created_at, hold_id, hold_micros, rate_version, unit,
                          rate_micros, minimum_micros)
        select 'bench-' || n, 'acct-' || n, 'face-swap-image', '{}', '{}', '2026-01-20T00:00:00Z', -n, 60000, 1, 'image', 40000, 40000
        from generate_series(1, ${OPEN_JOBS}::int) n`;
    });
    await sql`vacuum analyze`;
    const [row] = await sql<{ hours: number; months: number }[]>`
      select (select count(*)::int from usage_hours) as hours, (select count(*)::int from usage_months) as months`;
    if (!row) throw new Error('nothing was written');
    return row;
  } finally {
    await sql.end();
  }
}

/** Returns the seconds of each sample. */
async function measure(url: string): Promise<{ whole: number[]; single: number[] }> {
  const database = openDatabase({ url });
  const timed = async (samples: number, read: () => Promise<void>) => {
    const seconds: number[] = [];
    for (let i = 0; i < samples; i++) {
      const at = performance.now();
      await read();
      seconds.push((performance.now() - at) / 1000);
    }
    return seconds;
  };
  try {
    const whole = await timed(SAMPLES, async () => {
      const { accounts } = await summarizeAccounts(database.sql, { month: MONTH, after: '', limit: 0 });
      const lines = accounts.map((row) => csvLine(Object.values(row).map(String)));
      const open = accounts.reduce((sum, { inFlight }) => sum + inFlight, 0n);
      if (lines.length !== ACCOUNTS || open !== BigInt(OPEN_JOBS))
        throw new Error(`${lines.length} accounts with ${open} jobs in flight were summed`);
    });
    const range = {
      fromMicros: BigInt(Date.parse(`${MONTH}-01T00:00:00Z`)) * 1000n,
      toMicros: BigInt(Date.parse('2026-02-01T00:00:00Z')) * 1000n,
    };
    const single = await timed(SAMPLES, async () => {
      await summarizeUsage(database.sql, 'acct-77', range);
    });
    return { whole, single };
  } finally {
    await database.close();
  }
}
