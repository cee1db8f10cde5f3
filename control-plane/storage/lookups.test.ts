import { silentLogger } from '@semblance/common/logging';
import type { ObjectStore } from '@semblance/objects/store';
import { reserveSession, type SessionRig, sessionRig, told } from '@semblance/testkit/control-plane/sessions';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createGate } from '../accounts/gate.ts';
import { createSettler } from '../jobs/settle.ts';
import { createReceipts } from '../relay/receipts.ts';
import { runScript } from './sql.ts';

/**
 * Rows that ended before the test begins. For the planner, reading this many is cheaper than looking up a batch of
 * guessed size.
 */
const OTHERS = 150;
/** Rows of a table that may be read for an operation on one of them: find, lock, write and read it. */
const ENOUGH = 25;

/** After this many runs of a statement its plan is kept. */
const RUNS = 12;

let rig: SessionRig;
let account: Awaited<ReturnType<SessionRig['db']['account']>>;
let submit: ReturnType<SessionRig['db']['submitter']>;

beforeAll(async () => {
  rig = await sessionRig();
  account = await rig.db.account(1_000);
  submit = rig.db.submitter();
  // No statistics are gathered meanwhile: the planner knows as much as in the first minutes.
  const unwatched = ['jobs', 'outbox', 'sessions'].map(
    (table) => `alter table ${table} set (autovacuum_enabled = off);`,
  );
  await rig.db.sql.begin((transaction) => runScript(transaction, unwatched.join('\n')));
  for (let n = 0; n < OTHERS; n++) {
    const { jobId } = await submit(account.submission());
    await rig.db
      .sql`select settle_job(${jobId}, null, null, 'processing_failed', 'It failed.', 'render_failed', null)`;
    const session = await rig.streaming(account.accountId);
    await rig.db.sql`select settle_session(${session}, 'ended', null)`;
  }
});
afterAll(() => rig.db.close());

const jobsMade = async (count: number) =>
  Promise.all(Array.from({ length: count }, async () => (await submit(account.submission())).jobId));
const FAILED = { code: 'processing_failed', message: 'It failed.', reason: 'render_failed' } as const;

/** Repeated operations on one of many rows, by table. */
const operations: Record<string, [table: string, begin: () => Promise<() => Promise<unknown>>]> = {
  'a settlement': [
    'jobs',
    async () => {
      const objects = {} as ObjectStore;
      const { fail } = createSettler({ ...rig.db, objects, logger: silentLogger(), onSettled() {} });
      const jobs = await jobsMade(RUNS);
      return () => fail(jobs.pop() as string, undefined, FAILED);
    },
  ],
  'a payment recorded': [
    'jobs',
    async () => {
      const receipts = createReceipts({ ...rig.db, lingerMs: 0 });
      const jobs = await jobsMade(RUNS);
      return () => receipts.record({ id: -1n, jobId: jobs.pop() as string, renderJobUid: 'uid-1' });
    },
  ],
  'a debt recorded as paid': [
    'outbox',
    async () => {
      const receipts = createReceipts({ ...rig.db, lingerMs: 0 });
      const paid = async () => {
        const debts = Array.from({ length: 40 }, (_, n) => -1n - BigInt(n));
        await Promise.all(debts.map((id) => receipts.record({ id, jobId: '', renderJobUid: undefined })));
      };
      return paid;
    },
  ],
  'a message with reads of 16 jobs': [
    'jobs',
    async () => {
      const gate = createGate(rig.db.database);
      const asks = (await jobsMade(16)).map((jobId) => ({ caller: account.caller, jobId }));
      return () => gate.admitAll(asks);
    },
  ],
  'a report of a session': [
    'sessions',
    async () => {
      const id = await rig.streaming(account.accountId);
      let streamedMs = 0;
      return () => rig.report([told(id, ++streamedMs)]);
    },
  ],
  'a session refused': [
    'sessions',
    async () => {
      const sessions: string[] = [];
      for (let n = 0; n < RUNS; n++) sessions.push((await reserveSession(rig.db.sql, account.accountId)).id);
      return () => rig.db.sql`select refuse_sessions(array[${sessions.pop()}])`;
    },
  ],
};

test.for(Object.entries(operations))(
  '%s reads what it is about, however much else there is',
  async ([, [table, begin]]) => {
    const work = await begin();
    // By then plans are kept.
    for (let run = 1; run < RUNS; run++) await work();
    const [before = Number.NaN] = await rig.db.rowsRead(table);
    await work();
    const [after = Number.NaN] = await rig.db.rowsRead(table);
    expect(after - before).toBeLessThan(ENOUGH);
  },
);
