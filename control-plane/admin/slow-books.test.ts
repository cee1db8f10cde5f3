import { setTimeout as delay } from 'node:timers/promises';
import { Metadata } from '@grpc/grpc-js';
import { call, createClient } from '@semblance/common/grpc/client';
import { AdminServiceClient } from '@semblance/proto/semblance/admin/v1/admin';
import {
  makeAccount,
  photoSwap,
  startTestSystem,
  succeed,
  type TestSystem,
  untilJob,
  untilRenderJob,
  upload,
} from '@semblance/testkit/control-plane/control-plane';
import { afterAll, beforeAll, expect, test } from 'vitest';

let system: TestSystem;
let admin: AdminServiceClient;

/** A system whose books take as long to recompute as a test wants. */
beforeAll(async () => {
  system = await startTestSystem();
  admin = createClient(AdminServiceClient, `127.0.0.1:${system.plane.port}`);
  const { sql } = system.database;
  await sql`create table recomputing (goes_on boolean not null)`;
  await sql`insert into recomputing values (false)`;
  await sql`alter function ledger_faults(text) rename to quick_ledger_faults`;
  await sql`
    create function ledger_faults(p_account text) returns table (fault text, expected numeric, found numeric)
    language plpgsql as $$ begin
      while (select goes_on from recomputing) loop perform pg_sleep(0.05); end loop;
      return query select * from quick_ledger_faults(p_account);
    end $$`;
});
afterAll(async () => {
  admin.close();
  await system.close();
});

const recomputing = (goesOn: boolean) => system.database.sql`update recomputing set goes_on = ${goesOn}`;

function asked() {
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${system.adminToken}`);
  return { timeoutMs: 60_000, metadata };
}

test('an account is shown, and a top-up answered, when its books take longer than any other statement may', async () => {
  const { accountId } = await makeAccount(system);
  await recomputing(true);
  const top = { accountId, amountMicros: 1_000_000n, reference: 'invoice 1' };
  const answers = Promise.all([
    call(admin.showAccount.bind(admin), { accountId }, asked()),
    call(admin.topUpAccount.bind(admin), top, asked()),
  ]);
  answers.catch(() => {});
  await delay(6_000);
  await recomputing(false);
  const [shown, toppedUp] = await answers;
  expect([shown.account?.ledgerOk, toppedUp.account?.ledgerOk]).toEqual([true, true]);
  expect(toppedUp.account?.balanceMicros).toBe(11_000_000n);
});

test('people wait for their turn, however many ask, and chores are at it', async () => {
  const { accountId } = await makeAccount(system);
  await recomputing(true);
  const many = Promise.all(
    Array.from({ length: 12 }, () => call(admin.showAccount.bind(admin), { accountId }, asked())),
  );
  many.catch(() => {});
  await delay(6_000);
  await recomputing(false);
  expect((await many).every(({ account }) => account?.ledgerOk)).toBe(true);
});

test('a top-up whose account cannot be shown says that it is booked', async () => {
  const { accountId, caller } = await makeAccount(system);
  const { sql } = system.database;
  await sql`alter function ledger_faults(text) rename to away_ledger_faults`;
  try {
    const top = { accountId, amountMicros: 1_000_000n, reference: undefined };
    await expect(call(admin.topUpAccount.bind(admin), top, asked())).rejects.toThrow('The top-up is booked');
  } finally {
    await sql`alter function away_ledger_faults(text) rename to ledger_faults`;
  }
  const { control, ask } = system.client;
  expect((await ask(control.getBalance.bind(control), { caller })).balanceMicros).toBe(11_000_000n);
});

test('no submit and no settlement waits for that, and the money is there at once', async () => {
  const { accountId, caller } = await makeAccount(system);
  const { fileKey } = await upload(system, caller);
  const { control, ask } = system.client;
  const balance = async () => (await ask(control.getBalance.bind(control), { caller })).balanceMicros;
  const before = await balance();
  await recomputing(true);
  let answered = false;
  const topUp = call(
    admin.topUpAccount.bind(admin),
    { accountId, amountMicros: 5_000_000n, reference: undefined },
    asked(),
  ).finally(() => {
    answered = true;
  });
  await expect.poll(balance, { interval: 50 }).toBe(before + 5_000_000n);
  const { id } = await ask(control.submitJob.bind(control), photoSwap(caller, fileKey));
  await succeed(system, await untilRenderJob(system, id));
  await untilJob(system, caller, id, ({ status }) => status === 'succeeded');
  expect(answered).toBe(false);
  await recomputing(false);
  expect((await topUp).account?.ledgerOk).toBe(true);
});
