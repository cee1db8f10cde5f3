import { setTimeout as delay } from 'node:timers/promises';
import { ObjectNotFoundError, type ObjectStore } from '@semblance/objects/store';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { createRemovals } from '../media/removals.ts';
import { createUploads } from '../uploads/uploads.ts';
import { runChores } from './chores.ts';
import { keepHouse } from './housekeeping.ts';

let db: TestDatabase;
let stop: AbortController;
let work: Promise<void> | undefined;
const logger = pino({ level: 'silent' });

beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());
beforeEach(() => {
  stop = new AbortController();
});
afterEach(async () => {
  stop.abort();
  await work;
});

test('however many are old and whatever the object store refuses: keys, traces and uploads go', async () => {
  const { accountId, files } = await db.account();
  await db.sql`
    insert into idempotency_keys (account_id, key, body_sha256, job_id, created_at)
    select ${accountId}, 'key-' || n, decode('00', 'hex'), 'job-' || n, now() - interval '8 days' from generate_series(1, 5001) n`;
  await db.sql`
    insert into job_traces (job_id, traceparent, created_at)
    select 'job-' || n, '00-', now() - interval '8 days' from generate_series(1, 5001) n`;
  await db.sql`insert into uploads (file_key, account_id, reserved_at)
    values ('api/up-stuck', ${accountId}, now() - interval '1 day')`;
  await db.sql`update uploads set completed_at = now() - interval '31 days' where file_key = ${files.image}`;
  const objects = {
    async delete(key: string) {
      if (key === 'api/up-stuck') throw new Error('this one cannot be deleted');
    },
    async info() {
      throw new ObjectNotFoundError('it is gone');
    },
    async *list() {},
    put: async () => ({}),
  } as unknown as ObjectStore;
  const { database } = db;
  work = keepHouse(
    {
      database,
      objects,
      logger,
      reflector: { list: () => [], hasSynced: true },
      uploads: createUploads({ database, objects, logger }),
      removals: createRemovals({ database, objects, logger }),
    },
    stop.signal,
  );
  const left = async () => {
    const [row] = await db.sql<{ keys: number; traces: number; uploads: number; owed: number }[]>`
      select (select count(*)::int from idempotency_keys) as keys, (select count(*)::int from job_traces) as traces,
             (select count(*)::int from uploads where file_key = ${files.image}) as uploads,
             (select count(*)::int from media_removals) as owed`;
    return row;
  };
  await expect.poll(left, { timeout: 40_000 }).toEqual({ keys: 0, traces: 0, uploads: 0, owed: 0 });
});

test('a chore that takes long does not hold the others up', async () => {
  let done = 0;
  const chore = { everySeconds: 3_600, leaseSeconds: 3_600 };
  const chores = [
    { ...chore, name: 'long', work: (signal: AbortSignal) => delay(60_000, {}, { signal }) },
    { ...chore, name: 'short', work: async () => ({ done: ++done }) },
  ];
  work = runChores({ database: db.database, logger, chores, lookEveryMs: 50 }, stop.signal);
  await expect.poll(() => done, { timeout: 25_000 }).toBe(1);
});

test('a chore that is due further ahead than anything puts it is done now: its clock was set back', async () => {
  const done: string[] = [];
  const chore = (name: string, everySeconds: number, leaseSeconds: number) => ({
    name,
    everySeconds,
    leaseSeconds,
    work: async () => {
      done.push(name);
      return {};
    },
  });
  const chores = [
    chore('paused', 600, 60),
    chore('left by a process', 60, 600),
    chore('failed', 5, 5),
    chore('pauses', 4_000, 60),
    chore('under way', 60, 4_000),
    chore('tried again soon', 5, 5),
  ];
  await db.sql`
    insert into chores (name, due_at)
    select name, now() + case name when 'tried again soon' then 60 else 3_600 end * interval '1 second'
    from unnest(${chores.map(({ name }) => name)}::text[]) name`;
  work = runChores({ database: db.database, logger, chores, lookEveryMs: 50 }, stop.signal);
  await expect
    .poll(() => new Set(done), { timeout: 25_000 })
    .toEqual(new Set(['paused', 'left by a process', 'failed']));
  // Several rounds later.
  await delay(500);
  expect(new Set(done)).toEqual(new Set(['paused', 'left by a process', 'failed']));
});
