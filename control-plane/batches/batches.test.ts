import {
  makeAccount,
  photoSwap,
  setStatus,
  startTestSystem,
  succeed,
  type TestSystem,
  untilJob,
  untilRenderJob,
  untilTrue,
  upload,
} from '@semblance/testkit/control-plane/control-plane';
import { startReceiver } from '@semblance/testkit/stack/receiver';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openSql, type Sql } from '../storage/sql.ts';

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

type Account = Awaited<ReturnType<typeof makeAccount>>;
interface Batch {
  readonly id: string;
  readonly status: string;
  readonly counts: Record<string, number>;
  readonly hold_usd: number;
  readonly charged_usd: number;
  readonly finished_at: string | null;
}

function callsOf({ caller }: Account) {
  const { control, ask } = system.client;
  const read = (text: string) => JSON.parse(text) as Batch;
  return {
    submit: async (items: object[], more: object = {}) => {
      const { batchJson, replayed } = await ask(control.submitBatch.bind(control), {
        ...{ caller, items: items as never[], metadata: {} },
        ...more,
      });
      return { batch: read(batchJson), replayed, text: batchJson };
    },
    estimate: async (items: object[]) =>
      (await ask(control.estimateBatch.bind(control), { caller, items: items as never[] })).quote,
    read: async (batchId: string) =>
      read((await ask(control.getBatch.bind(control), { caller, batchId })).batchJson),
    jobs: (batchId: string, fromIndex = 0, limit = 200) =>
      ask(control.listBatchJobs.bind(control), { caller, batchId, fromIndex, limit }),
    list: (limit = 50, cursor?: string) => ask(control.listBatches.bind(control), { caller, limit, cursor }),
    cancel: async (batchId: string) =>
      read((await ask(control.cancelBatch.bind(control), { caller, batchId })).batchJson),
  };
}

async function itemsOf(account: Account, count: number): Promise<object[]> {
  const { fileKey } = await upload(system, account.caller);
  const {
    caller: _,
    callbackUrl,
    idempotencyKey,
    ...item
  } = photoSwap(account.caller, fileKey) as never as Record<string, unknown>;
  return Array.from({ length: count }, () => ({ engineOptions: {}, metadata: {}, ...item }));
}

async function booked(accountId: string) {
  const [row] = await sql<{ jobs: number; held: bigint; available: bigint; batches: number }[]>`
    select (select count(*)::int from jobs where account_id = ${accountId}) as jobs, held_micros as held,
           available_micros as available, (select count(*)::int from batches where account_id = ${accountId}) as batches
    from account_balances where account_id = ${accountId}`;
  return row;
}

describe('a batch', () => {
  test('is taken whole, and ends with its last job: what succeeded is charged, one webhook tells it', async () => {
    const account = await makeAccount(system);
    const { submit, read, jobs } = callsOf(account);
    const receiver = await startReceiver(200);
    const { batch } = await submit(await itemsOf(account, 3), {
      callbackUrl: receiver.url,
      metadata: { order: '7' },
    });
    expect(batch).toMatchObject({
      status: 'processing',
      jobs: 3,
      counts: { queued: 3, processing: 0, succeeded: 0, failed: 0 },
      charged_usd: 0,
      metadata: { order: '7' },
      finished_at: null,
    });
    const { jobs: members, nextIndex } = await jobs(batch.id);
    expect(members.map(({ index }) => index)).toEqual([0, 1, 2]);
    expect(nextIndex).toBeUndefined();
    const ids = members.map(({ job }) => job?.id ?? '');
    for (const [i, id] of ids.entries()) {
      const renderJob = await untilRenderJob(system, id);
      if (i < 2) await succeed(system, renderJob);
      else
        await setStatus(system, renderJob, {
          phase: 'Failed',
          failure: { code: 'face_not_detected', message: 'No face was found.' },
        });
    }
    await untilTrue(async () => (await read(batch.id)).status === 'finished', 'it ends');
    const ended = await read(batch.id);
    expect(ended.counts).toEqual({ queued: 0, processing: 0, succeeded: 2, failed: 1 });
    const charges = await Promise.all(
      ids
        .slice(0, 2)
        .map((id) => untilJob(system, account.caller, id, ({ status }) => status === 'succeeded')),
    );
    const charged = charges.reduce((sum, { chargedMicros = 0n }) => sum + chargedMicros, 0n);
    expect(charged).toBeGreaterThan(0n);
    expect(ended.charged_usd).toBeCloseTo(Number(charged) / 1e6, 9);
    expect((await booked(account.accountId))?.held).toBe(0n);
    await untilTrue(() => receiver.received.length > 0, 'it is told');
    const told = JSON.parse(receiver.received[0]?.body.toString() ?? '');
    expect(told).toMatchObject({ event: 'batch.finished', data: ended });
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(receiver.received).toHaveLength(1);
    await receiver.close();
  });

  test('that one item spoils, or that costs a micro-dollar too much, makes and holds nothing', async () => {
    const account = await makeAccount(system, 1);
    const { submit, estimate } = callsOf(account);
    const items = await itemsOf(account, 5);
    const [each] = (await estimate(items))?.itemHoldMicros ?? [];
    expect(await estimate(items)).toEqual({
      holdMicros: 5n * (each ?? 0n),
      balanceSufficient: true,
      itemHoldMicros: Array.from({ length: 5 }, () => each),
    });
    const before = await booked(account.accountId);
    const spoiled = [
      ...items.slice(0, 3),
      { ...items[3], inputs: { face: 'api/nothing', image: 'api/nothing' } },
    ];
    await expect(submit(spoiled)).rejects.toMatchObject({
      code: 'invalid_input',
      message: expect.stringContaining('items.3'),
    });
    const most = Number(1_000_000n / (each ?? 1n));
    await expect(submit(await itemsOf(account, most + 1))).rejects.toMatchObject({
      code: 'insufficient_balance',
      message: expect.stringMatching(/needs holds of .* USD; 1 USD are available/),
    });
    expect(await booked(account.accountId)).toEqual(before);
    const { batch } = await submit(await itemsOf(account, most));
    expect(batch.counts.queued).toBe(most);
    expect(await booked(account.accountId)).toMatchObject({
      jobs: most,
      held: BigInt(most) * (each ?? 0n),
      batches: 1,
    });
  });

  test('counts against the jobs in flight as a whole', async () => {
    const account = await makeAccount(system, 100);
    const { submit } = callsOf(account);
    await sql`update accounts set jobs_in_flight_limit = 10 where id = ${account.accountId}`;
    await expect(submit(await itemsOf(account, 11))).rejects.toMatchObject({
      code: 'at_capacity',
      message: expect.stringMatching(/10 of its 11 jobs/),
    });
    expect(await booked(account.accountId)).toMatchObject({ jobs: 0, held: 0n, batches: 0 });
    await submit(await itemsOf(account, 10));
  });

  test('under an Idempotency-Key is one, however often and however many at once; another body is refused', async () => {
    const account = await makeAccount(system, 100);
    const { submit } = callsOf(account);
    const items = await itemsOf(account, 4);
    const all = await Promise.all(
      Array.from({ length: 12 }, () => submit(items, { idempotencyKey: 'order 9' })),
    );
    expect(new Set(all.map(({ batch }) => batch.id)).size).toBe(1);
    expect(all.filter(({ replayed }) => !replayed)).toHaveLength(1);
    expect(await booked(account.accountId)).toMatchObject({ jobs: 4, batches: 1 });
    await expect(submit(items.slice(1), { idempotencyKey: 'order 9' })).rejects.toMatchObject({
      code: 'invalid_input',
    });
  });

  test('32 at once on a balance for some of them take exactly that many', async () => {
    const account = await makeAccount(system, 1);
    const { submit, estimate } = callsOf(account);
    const items = await itemsOf(account, 2);
    const hold = (await estimate(items))?.holdMicros ?? 0n;
    const fit = Number(1_000_000n / hold);
    const results = await Promise.allSettled(Array.from({ length: 32 }, () => submit(items)));
    const taken = results.filter(({ status }) => status === 'fulfilled').length;
    expect(taken).toBe(fit);
    for (const result of results)
      if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'insufficient_balance' });
    expect(await booked(account.accountId)).toMatchObject({
      jobs: 2 * fit,
      batches: fit,
      available: 1_000_000n - hold * BigInt(fit),
    });
  });

  test.each(['key', 'account'] as const)(
    'that the cap of the %s does not leave whole makes and holds nothing, exactly at the border',
    async (holder) => {
      const account = await makeAccount(system, 100);
      const { submit, estimate, cancel } = callsOf(account);
      const items = await itemsOf(account, 5);
      const quote = await estimate(items);
      const hold = quote?.holdMicros ?? 0n;
      expect(quote?.capRefusal).toBeUndefined();
      const cap = (micros: bigint) =>
        holder === 'key'
          ? sql`update api_keys set cap_day_micros = ${micros} where account_id = ${account.accountId}`
          : sql`update accounts set cap_day_micros = ${micros} where id = ${account.accountId}`;
      const before = await booked(account.accountId);
      // The cap leaves three whole jobs, and all but a micro-dollar of five.
      for (const micros of [(hold * 3n) / 5n, hold - 1n]) {
        await cap(micros);
        const told = expect.stringMatching(
          new RegExp(`^The cap of this ${holder}, .* This batch needs holds of ${Number(hold) / 1e6} USD\\.`),
        );
        expect(await estimate(items)).toMatchObject({ balanceSufficient: true, capRefusal: told });
        await expect(submit(items)).rejects.toMatchObject({ code: 'insufficient_balance', message: told });
        expect(await booked(account.accountId)).toEqual(before);
      }
      await cap(3n * hold);
      const results = await Promise.allSettled(Array.from({ length: 12 }, () => submit(items)));
      const taken = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
      expect(taken).toHaveLength(3);
      for (const result of results)
        if (result.status === 'rejected')
          expect(result.reason).toMatchObject({ code: 'insufficient_balance' });
      expect(await booked(account.accountId)).toMatchObject({ jobs: 15, batches: 3, held: 3n * hold });
      // What a cancelled batch held is there again.
      await cancel(taken[0]?.batch.id ?? '');
      await untilTrue(async () => (await booked(account.accountId))?.held === 2n * hold, 'it is given back');
      await submit(items);
      expect([...(await sql`select * from ledger_faults(${account.accountId})`)]).toEqual([]);
    },
  );

  test('is cancelled in one step, and again without effect; what has ended stays', async () => {
    const account = await makeAccount(system);
    const { submit, cancel, jobs, read } = callsOf(account);
    const { batch } = await submit(await itemsOf(account, 4));
    const [first] = (await jobs(batch.id)).jobs;
    await succeed(system, await untilRenderJob(system, first?.job?.id ?? ''));
    await untilTrue(async () => (await read(batch.id)).counts.succeeded === 1, 'one succeeds');
    await cancel(batch.id);
    await cancel(batch.id);
    // The operator of the tests does not release RenderJobs by itself, so those of jobs that were placed are deleted here.
    await untilTrue(async () => (await read(batch.id)).status === 'finished', 'the rest ends');
    expect((await read(batch.id)).counts).toEqual({ queued: 0, processing: 0, succeeded: 1, failed: 3 });
    expect((await booked(account.accountId))?.held).toBe(0n);
  });

  test('is its account’s alone, and is listed and paged', async () => {
    const [owner, stranger] = await Promise.all([makeAccount(system, 50), makeAccount(system)]);
    const mine = callsOf(owner);
    const items = await itemsOf(owner, 5);
    const ids: string[] = [];
    for (let i = 0; i < 3; i++) ids.unshift((await mine.submit(items)).batch.id);
    const theirs = callsOf(stranger);
    for (const work of [theirs.read, theirs.cancel, (id: string) => theirs.jobs(id)])
      await expect(work(ids[0] ?? '')).rejects.toMatchObject({ code: 'not_found' });
    expect((await theirs.list()).batchesJson).toEqual([]);
    const first = await mine.list(2);
    const rest = await mine.list(2, first.nextCursor);
    expect([...first.batchesJson, ...rest.batchesJson].map((text) => JSON.parse(text).id)).toEqual(ids);
    expect(rest.nextCursor).toBeUndefined();
    const page = await mine.jobs(ids[0] ?? '', 0, 3);
    expect([page.jobs.length, page.nextIndex]).toEqual([3, 3]);
    expect((await mine.jobs(ids[0] ?? '', 3, 3)).jobs.map(({ index }) => index)).toEqual([3, 4]);
  });

  test('has at most 1,000 items', async () => {
    const account = await makeAccount(system, 500);
    await sql`update accounts set jobs_in_flight_limit = 5000 where id = ${account.accountId}`;
    await sql`update settings set jobs_in_flight = 5000`;
    const { submit } = callsOf(account);
    const items = await itemsOf(account, 1_001);
    await expect(submit(items)).rejects.toMatchObject({ code: 'invalid_input' });
    await expect(submit([])).rejects.toMatchObject({ code: 'invalid_input' });
    const { batch } = await submit(items.slice(0, 1_000));
    expect(batch.counts.queued).toBe(1_000);
    expect(await booked(account.accountId)).toMatchObject({ jobs: 1_000, batches: 1 });
  });
});
