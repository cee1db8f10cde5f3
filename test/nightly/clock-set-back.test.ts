import { silentLogger } from '@semblance/common/logging';
import { keepHouse } from '@semblance/control-plane/chores/housekeeping';
import { createRemovals } from '@semblance/control-plane/media/removals';
import { createUploads } from '@semblance/control-plane/uploads/uploads';
import type { ObjectStore } from '@semblance/objects/store';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { seedJobs, settleJobs } from '@semblance/testkit/control-plane/webhook-jobs';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';

/** Debts and deliveries that were written before the database's clock was set back by an hour. */

let db: TestDatabase;
let stop: AbortController;
let work: Promise<void> | undefined;

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

test('debts, webhooks and removals that are due only ahead of it are due now, and what merely waits goes on waiting', async () => {
  const ids = await seedJobs(db.sql, ['https://a.test/hook', 'https://b.test/hook'], 4, 2);
  await settleJobs(db.sql, ids);
  await db.sql`delete from outbox`;
  await db.sql`
    insert into outbox (kind, job_id, due_at) values
      ('renderjob', 'far', now() + interval '1 hour'), ('event', 'far', now() + interval '1 hour'),
      ('renderjob', 'near', now() + interval '30 seconds')`;
  const [far = '', near = '', leased = '', tried = ''] = ids;
  const ahead = (id: string, due: number, lease: number | null) => db.sql`
    update deliveries set due_at = now() + ${due} * interval '1 second',
                          leased_until = now() + ${lease}::float8 * interval '1 second'
    where job_id = ${id}`;
  await ahead(far, 3_600, null);
  await ahead(near, 12 * 60, null);
  await ahead(leased, 0, 3_630);
  await ahead(tried, 0, 100);
  await db.sql`
    insert into media_removals (object_key, kind, size_bytes, removed_by, due_at) values
      ('far', 'orphan', 1, 'retention', now() + interval '90 minutes'),
      ('near', 'orphan', 1, 'retention', now() + interval '59 minutes')`;

  const { database } = db;
  const objects = { async delete() {}, async *list() {} } as unknown as ObjectStore;
  const logger = silentLogger();
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

  const waiting = async () => {
    const rows = await db.sql<{ what: string }[]>`
      select kind || ' ' || job_id as what from outbox where due_at > now()
      union all
      select 'delivery ' || job_id from deliveries where due_at > now()
      union all
      select 'removal ' || object_key from media_removals where due_at > now()
      order by what`;
    return rows.map(({ what }) => what);
  };
  await expect
    .poll(waiting, { timeout: 25_000 })
    .toEqual([`delivery ${near}`, 'removal near', 'renderjob near']);
  const leases = await db.sql<{ job_id: string; seconds: number }[]>`
    select job_id, extract(epoch from leased_until - now())::float8 as seconds from deliveries
    where leased_until is not null order by job_id`;
  // A process that is still working on a delivery keeps its lease.
  expect(leases.map(({ job_id }) => job_id)).toEqual([leased, tried].sort());
  const of = (id: string) => leases.find(({ job_id }) => job_id === id)?.seconds ?? Number.NaN;
  expect(of(leased)).toBeLessThanOrEqual(30);
  expect(of(tried)).toBeGreaterThan(30);
});
