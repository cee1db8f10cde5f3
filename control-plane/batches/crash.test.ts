import { setTimeout as delay } from 'node:timers/promises';
import {
  makeAccount,
  photoSwap,
  startTestSystem,
  succeed,
  type TestSystem,
  untilRenderJob,
  untilTrue,
  upload,
} from '@semblance/testkit/control-plane/control-plane';
import { startReceiver } from '@semblance/testkit/stack/receiver';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openSql, type Sql } from '../storage/sql.ts';

const ITEMS = 60;

let system: TestSystem;
let sql: Sql;
beforeAll(async () => {
  system = await startTestSystem({
    webhooks: { allow: ['127.0.0.0/8'], timeoutMs: 8_000, pollMs: 30, backoffMs: () => 40 },
  });
  sql = openSql({ url: system.pg.url, maxConnections: 4, settings: {}, deadlineMs: 20_000 });
});
afterAll(async () => {
  await sql.end();
  await system.close();
});

async function itemsOf(account: Awaited<ReturnType<typeof makeAccount>>, count: number): Promise<object[]> {
  const { fileKey } = await upload(system, account.caller);
  const { capability, inputs, parameters } = photoSwap(account.caller, fileKey);
  return Array.from({ length: count }, () => ({
    ...{ capability, inputs, parameters },
    engineOptions: {},
    metadata: {},
  }));
}

test('sessions of the database that are cut at any moment of a submit lose no item and hold nothing twice', async () => {
  const account = await makeAccount(system, 1_000);
  await sql`update accounts set jobs_in_flight_limit = 5000 where id = ${account.accountId}`;
  await sql`update settings set jobs_in_flight = 5000`;
  const { control, ask } = system.client;
  const items = await itemsOf(account, ITEMS);
  const cut = () => sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and state <> 'idle'
      and (query like '%submit_jobs%' or query like '%batches%' or query like '%quote_items%' or query = 'commit')`;
  let failed = 0;
  for (let round = 0; round < 20; round++) {
    const submit = () =>
      ask(control.submitBatch.bind(control), {
        ...{ caller: account.caller, items: items as never[], metadata: {} },
        idempotencyKey: `round ${round}`,
      });
    const first = submit().catch(() => {
      failed++;
      return undefined;
    });
    await delay(3 * round);
    await cut();
    await first;
    const { batchJson } = await untilSubmitted(submit);
    expect(JSON.parse(batchJson)).toMatchObject({ jobs: ITEMS });
    const [row] = await sql<
      { batches: number; jobs: number; members: number; holds: number; held: bigint }[]
    >`
      select (select count(*)::int from batches where account_id = ${account.accountId}) as batches,
             (select count(*)::int from jobs where account_id = ${account.accountId}) as jobs,
             (select count(*)::int from jobs where account_id = ${account.accountId} and batch_id is not null) as members,
             (select count(*)::int from ledger_transfers where account_id = ${account.accountId} and kind = 'hold') as holds,
             (select sum(hold_micros)::bigint from batches where account_id = ${account.accountId}) as held`;
    const jobs = (round + 1) * ITEMS;
    const [balance] = await sql<{ held: bigint }[]>`
      select held_micros as held from account_balances where account_id = ${account.accountId}`;
    expect(row).toEqual({ batches: round + 1, jobs, members: jobs, holds: jobs, held: balance?.held });
  }
  expect(failed, 'some submits were cut').toBeGreaterThan(0);
}, 120_000);

async function untilSubmitted<T>(submit: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++)
    try {
      return await submit();
    } catch (error) {
      if (tries > 20) throw error;
      await delay(100);
    }
}

test('a control plane that is replaced between the submit and the ends of the jobs tells the end once', async () => {
  const account = await makeAccount(system, 10);
  const { control, ask } = system.client;
  const receiver = await startReceiver(200);
  const { batchJson } = await ask(control.submitBatch.bind(control), {
    ...{ caller: account.caller, items: (await itemsOf(account, 3)) as never[], metadata: {} },
    callbackUrl: receiver.url,
  });
  const { id } = JSON.parse(batchJson) as { id: string };
  const members = await sql<
    { id: string }[]
  >`select id from jobs where batch_id = ${id} order by batch_index`;
  await succeed(system, await untilRenderJob(system, members[0]?.id ?? ''));
  const second = await system.startPlane();
  try {
    for (const { id: job } of members.slice(1)) await succeed(system, await untilRenderJob(system, job));
    await untilTrue(() => receiver.received.length > 0, 'it is told');
    await delay(1_000);
    expect(receiver.received).toHaveLength(1);
    const [row] = await sql<{ settled: number; captures: number }[]>`
      select count(*)::int as settled,
             (select count(*)::int from ledger_transfers t join jobs j on j.id = t.job_id
              where j.batch_id = ${id} and t.kind = 'capture') as captures
      from jobs where batch_id = ${id} and settled_at is not null`;
    expect(row).toEqual({ settled: 3, captures: 3 });
  } finally {
    await second.close();
    await receiver.close();
  }
});
