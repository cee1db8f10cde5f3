import { setTimeout as delay } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { silentLogger } from '@semblance/common/logging';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { setKey } from '../accounts/accounts.ts';
import { adjustAccount } from '../billing/adjust.ts';
import { readCaps } from '../billing/caps.ts';
import { readPricing } from '../billing/pricing.ts';
import { setRates } from '../billing/rate-card.ts';
import { openDatabase } from '../storage/database.ts';
import type { Sql } from '../storage/sql.ts';
import { readUsage, summarizeUsage } from '../usage/usage.ts';
import { type AskForPreview, createFramePreviewer } from './frame-previewer.ts';

const JPEG = Buffer.from('ffd8ffd9', 'hex');
/** What a preview costs here. */
const PRICE = 20_000n;
const AGENT = {
  metadata: { name: 'one' },
  spec: {},
  status: {
    address: 'one:1',
    slots: 1,
    slotsUsed: 0,
    conditions: [{ type: 'Ready', status: 'True', reason: 'Ready', message: '', lastTransitionTime: '' }],
    engines: [{ name: 'e', version: '1', capabilities: [{ name: 'face-swap', slots: 1 }] }],
  },
} as unknown as GpuAgent;

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

/** An account whose previews cost {@link PRICE}. */
async function payer(usd: number) {
  const { accountId, keyId } = await db.account(usd);
  await price(PRICE, accountId);
  const job = {
    ...{ accountId, keyId, capability: 'face-swap' as const, parameters: {}, atUs: 0n },
    inputs: { video: 'api/v', face: 'api/f' },
  };
  return { accountId, keyId, job };
}
const price = (previewMicros: bigint, accountId?: string) =>
  setRates(db.sql, { capability: 'face-swap', accountId, rates: [], whole: false, previewMicros });

const answers: AskForPreview = async () => ({ jpeg: JPEG, refusal: undefined });
const previewer = (ask: AskForPreview = answers, sql: Sql = db.sql) =>
  createFramePreviewer({
    sql,
    agents: { list: () => [AGENT] },
    objects: { signGet: async (key) => `http://store/${key}` },
    logger: silentLogger(),
    ask,
    roomWaitMs: 0,
  });
const stays = () => new AbortController().signal;
const failing = (code: status) => async () => Promise.reject(Object.assign(new Error('refused'), { code }));
const takenToday = async (accountId: string) => {
  const [row] = await db.sql<{ previews: number }[]>`
    select previews from frame_previews where account_id = ${accountId}`;
  return row?.previews ?? 0;
};

/** What the books say of an account, which agree. */
async function books(accountId: string) {
  expect(await db.faults(accountId)).toEqual([]);
  const entries = await readUsage(db.sql, accountId, undefined, 100);
  const { spent, available } = await db.balances(accountId);
  return { spent, available, entries };
}

describe('the price of a preview', () => {
  test('is 0 by default, on the card, the account’s own, set alone, and of two capabilities', async () => {
    const { accountId } = await db.account();
    const shown = async (of?: string) => {
      const { capabilities } = await readPricing(db.sql, of);
      return Object.fromEntries(
        capabilities.flatMap(({ capability, previewMicros }) =>
          previewMicros === undefined ? [] : [[capability, previewMicros]],
        ),
      );
    };
    expect(await shown()).toEqual({ 'face-swap-image': 0n, 'face-swap': 0n });
    const { before, after } = await price(7n, accountId);
    expect(after).toEqual({ ...before, previewMicros: 7n });
    expect(await shown(accountId)).toEqual({ 'face-swap-image': 0n, 'face-swap': 7n });
    expect(await shown()).toEqual({ 'face-swap-image': 0n, 'face-swap': 0n });
    // Other changes keep it, also those of code that does not know it.
    await setRates(db.sql, {
      capability: 'face-swap',
      accountId,
      rates: [],
      whole: false,
      minimumMicros: 1n,
    });
    await db.sql`
      insert into rates (capability, account_id, unit, rates, minimum_micros, hold_milli_units)
      select capability, account_id, unit, rates, minimum_micros, hold_milli_units
      from rates_in_force('face-swap', ${accountId})`;
    expect(await shown(accountId)).toMatchObject({ 'face-swap': 7n });
    for (const [capability, previewMicros] of [
      ['avatar', 1n],
      ['face-swap', -1n],
      ['face-swap', 10_000_000_001n],
    ] as const)
      await expect(
        setRates(db.sql, { capability, accountId, rates: [], whole: false, previewMicros }),
      ).rejects.toMatchObject({ code: 'invalid_input' });
  });

  test('can come later', async () => {
    const { accountId } = await db.account();
    const startsAt = new Date(Date.now() + 3_600_000).toISOString();
    const change = {
      capability: 'face-swap',
      accountId,
      rates: [],
      whole: false,
      previewMicros: 9n,
      startsAt,
    };
    await setRates(db.sql, change);
    await db.sql`update rates_to_come set starts_at = now() where account_id = ${accountId}`;
    await db.sql`select start_rates()`;
    const { capabilities } = await readPricing(db.sql, accountId);
    expect(capabilities.find(({ capability }) => capability === 'face-swap')?.previewMicros).toBe(9n);
  });
});

describe('a preview that costs something', () => {
  let at: Awaited<ReturnType<typeof payer>>;
  beforeEach(async () => {
    at = await payer(0.05);
  });

  test('is charged once when it is delivered, as an entry of the ledger and of usage', async () => {
    const { accountId, keyId, job } = at;
    expect(Buffer.from(await previewer()(job, stays()))).toEqual(JPEG);
    const { spent, available, entries } = await books(accountId);
    expect([spent, available]).toEqual([PRICE, 30_000n]);
    expect(entries).toMatchObject([
      {
        id: expect.stringMatching(/^prev-/),
        capability: 'face-swap',
        status: 'succeeded',
        chargedMicros: PRICE,
      },
    ]);
    expect(await summarizeUsage(db.sql, accountId, undefined)).toMatchObject({
      succeeded: 1n,
      spentMicros: PRICE,
    });
    const transfers = await db.sql`
      select kind, debit, credit, amount_micros, preview_id from ledger_transfers
      where account_id = ${accountId} and kind <> 'top_up'`;
    expect([...transfers]).toEqual([
      {
        kind: 'preview',
        debit: 'available',
        credit: 'revenue',
        amount_micros: PRICE,
        preview_id: entries[0]?.id,
      },
    ]);
    for (const of of [{ accountId }, { accountId, keyId }])
      expect(await readCaps(db.sql, of)).toMatchObject([{ spentMicros: PRICE }, { spentMicros: PRICE }]);
  });

  test('is refused before any work where the balance or a cap does not leave it', async () => {
    const { accountId, keyId, job } = at;
    const never: AskForPreview = () => Promise.reject(new Error('nobody is asked'));
    await setKey(db.sql, keyId, { scopes: [], capDayMicros: 19_999n });
    await expect(previewer(never)(job, stays())).rejects.toMatchObject({
      code: 'insufficient_balance',
      message: expect.stringMatching(/^The cap of this key, .* This preview needs a charge of 0\.02 USD\./),
    });
    await setKey(db.sql, keyId, { scopes: [], capDayMicros: -1n });
    await price(50_001n, accountId);
    await expect(previewer(never)(job, stays())).rejects.toMatchObject({
      code: 'insufficient_balance',
      httpStatus: 402,
      message: expect.stringMatching(/^This preview costs 0\.050001 USD; 0\.05 USD are available/),
    });
    expect(await takenToday(accountId)).toBe(0);
    expect(await books(accountId)).toMatchObject({ spent: 0n, entries: [] });
  });

  test.each<[string, AskForPreview, number]>([
    ['no agent has room', failing(status.RESOURCE_EXHAUSTED), 0],
    ['no engine can', failing(status.UNIMPLEMENTED), 0],
    ['an agent fails', failing(status.UNAVAILABLE), 1],
    ['an agent answers nothing', async () => ({ jpeg: Buffer.alloc(0), refusal: undefined }), 1],
    [
      'the render would fail',
      async () => ({
        jpeg: Buffer.alloc(0),
        refusal: { code: 'face_not_detected', message: 'No face was found.', findings: undefined },
      }),
      1,
    ],
  ])(
    'costs nothing where %s, and counts in its day only if an agent has begun it',
    async (_, ask, counted) => {
      const { accountId, job } = at;
      await expect(previewer(ask)(job, stays())).rejects.toMatchObject({ code: expect.any(String) });
      expect(await takenToday(accountId)).toBe(counted);
      expect(await books(accountId)).toMatchObject({ spent: 0n, available: 50_000n, entries: [] });
    },
  );

  test('whose caller has gone costs nothing, and counts in its day', async () => {
    const { accountId, job } = at;
    const caller = new AbortController();
    const asked = Promise.withResolvers<void>();
    const slow: AskForPreview = async (...more) => {
      asked.resolve();
      await delay(50);
      return answers(...more);
    };
    const gone = previewer(slow)(job, caller.signal);
    await asked.promise;
    caller.abort(new Error('gone'));
    await expect(gone).rejects.toThrow('gone');
    await delay(100);
    expect(await takenToday(accountId)).toBe(1);
    expect(await books(accountId)).toMatchObject({ spent: 0n, entries: [] });
  });

  test('is not delivered where the money went meanwhile; many at once never take more than there is', async () => {
    const { accountId, job } = at;
    const planes = Array.from({ length: 8 }, () => openDatabase({ url: db.url, maxConnections: 2 }));
    try {
      const all = await Promise.allSettled(planes.map(({ sql }) => previewer(answers, sql)(job, stays())));
      expect(all.filter((one) => one.status === 'fulfilled')).toHaveLength(2);
      for (const one of all)
        if (one.status === 'rejected') expect(one.reason).toMatchObject({ code: 'insufficient_balance' });
    } finally {
      await Promise.all(planes.map((plane) => plane.close()));
    }
    const { spent, available, entries } = await books(accountId);
    expect([spent, available, entries.length]).toEqual([2n * PRICE, 10_000n, 2]);
  });

  test('fills a cap exactly to its border, by day, with what jobs hold', async () => {
    const { accountId, keyId, job } = await payer(10);
    await setKey(db.sql, keyId, { scopes: [], capDayMicros: 60_000n + 2n * PRICE });
    const { submission } = await db.account();
    const [file] = await db.sql<{ key: string }[]>`
      update uploads set account_id = ${accountId} where file_key = ${submission().inputs.image as string}
      returning file_key as key`;
    const inputs = { image: file?.key as string, face: file?.key as string };
    await db.submitter()({ ...submission({ inputs }), accountId, keyId });
    await previewer()(job, stays());
    await previewer()(job, stays());
    await expect(previewer()(job, stays())).rejects.toMatchObject({ code: 'insufficient_balance' });
    expect(await books(accountId)).toMatchObject({ spent: 2n * PRICE });
  });

  test('costs what was agreed before it, whatever the card says since', async () => {
    const { accountId, job } = at;
    const raised: AskForPreview = async (...more) => {
      await price(50_000n, accountId);
      return answers(...more);
    };
    await previewer(raised)(job, stays());
    expect(await books(accountId)).toMatchObject({ spent: PRICE });
  });

  test('is given back by a refund, once in full, of its day and key', async () => {
    const { accountId, keyId, job } = at;
    await previewer()(job, stays());
    const id = (await books(accountId)).entries[0]?.id;
    const refund = (reference: string) =>
      db.sql.begin((tx) =>
        adjustAccount(tx, {
          ...{ accountId, amountMicros: PRICE, reference, reason: 'x', refundOf: id, intoDebt: false },
        }),
      );
    await refund('one');
    await expect(refund('two')).rejects.toMatchObject({ code: 'invalid_input' });
    expect(await books(accountId)).toMatchObject({ spent: 0n, available: 50_000n });
    expect(await readCaps(db.sql, { accountId, keyId })).toMatchObject([
      { spentMicros: 0n },
      { spentMicros: 0n },
    ]);
  });
});

describe('a charge whose answer is lost', () => {
  /** Lets the connection of the first charge be cut when the server has, or has not, carried it out. */
  function cutOnce(sql: Sql, when: 'before' | 'after'): Sql {
    let cut = false;
    const first = async (text: TemplateStringsArray, ...values: unknown[]) => {
      const charges = text.join('').includes('charge_preview');
      if (!charges || cut) return sql(text, ...values);
      cut = true;
      if (when === 'after') await sql(text, ...values);
      const dead = openDatabase({ url: db.url, maxConnections: 1, deadlineMs: 200 });
      try {
        // A real loss: the statement outlasts the deadline, and nobody knows what became of it.
        return await dead.sql`select pg_sleep(2)`;
      } finally {
        await dead.close();
      }
    };
    return Object.assign(first, sql) as unknown as Sql;
  }

  test.each(['before', 'after'] as const)(
    'is asked for again under its id, and booked once: %s',
    async (when) => {
      const { accountId, job } = await payer(1);
      expect(Buffer.from(await previewer(answers, cutOnce(db.sql, when))(job, stays()))).toEqual(JPEG);
      expect(await books(accountId)).toMatchObject({ spent: PRICE, entries: [{ chargedMicros: PRICE }] });
    },
  );
});

test('faults of previews and of what keys spent are found in the books', async () => {
  const { accountId, keyId, job } = await payer(1);
  await previewer()(job, stays());
  await db.sql`update key_spend_days set spent_micros = spent_micros + 1 where key_id = ${keyId}`;
  expect(await db.faults(accountId)).toEqual([
    { fault: 'spend of keys by day counted wrongly', expected: '0', found: '1' },
  ]);
  await db.sql`delete from key_spend_days where key_id = ${keyId}`;
  expect(await db.faults(accountId)).toHaveLength(1);
  await db.sql`insert into key_spend_days values (${keyId}, today_utc(), ${PRICE})`;
  expect(await db.faults(accountId)).toEqual([]);
  await db.sql`
    insert into paid_previews (id, account_id, capability, rate_version, charged_micros)
    values ('prev-none', ${accountId}, 'face-swap', 1, 5)`;
  expect(await db.faults(accountId)).toEqual([
    { fault: 'previews charged other than booked', expected: '0', found: '1' },
  ]);
});
