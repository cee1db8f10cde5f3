import { silentLogger } from '@semblance/common/logging';
import type { ObjectStore } from '@semblance/objects/store';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { seedJobs, settleJobs } from '@semblance/testkit/control-plane/webhook-jobs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createRemovals } from '../media/removals.ts';
import { createRetention } from '../media/retention.ts';
import { createUploads } from '../uploads/uploads.ts';
import { removeOldKeys, removeOldTraces } from './housekeeping.ts';

/** Enough rows that a plan which reads all of them is not the cheapest by accident. */
const YOUNG = 4_000;

let db: TestDatabase;
let accountId: string;

beforeAll(async () => {
  db = await testDatabase();
  ({ accountId } = await db.account());
  await db.sql`
    insert into idempotency_keys (account_id, key, body_sha256, job_id)
    select ${accountId}, 'key-' || n, decode('00', 'hex'), 'job-' || n from generate_series(1, ${YOUNG}::int) n`;
  await db.sql`
    insert into job_traces (job_id, traceparent) select 'job-' || n, '00-' from generate_series(1, ${YOUNG}::int) n`;
  await db.sql`
    insert into uploads (file_key, account_id, completed_at, kind, content_type, size_bytes, sha256)
    select 'api/up-' || n, ${accountId}, now(), 'image', 'image/png', 1, sha256('') from generate_series(1, ${YOUNG}::int) n`;
  await db.sql`
    insert into uploads (file_key, account_id)
    select 'api/open-' || n, ${accountId} from generate_series(1, ${YOUNG}::int) n`;
  await settleJobs(db.sql, await seedJobs(db.sql, [null], YOUNG));
});
afterAll(() => db.close());

test('a sweep looks at what is old, not through all that is young', { timeout: 240_000 }, async () => {
  const { database } = db;
  const objects = {} as ObjectStore;
  const removals = createRemovals({ database, objects, logger: silentLogger() });
  const tables = ['idempotency_keys', 'job_traces', 'uploads', 'jobs'];
  const { signal } = new AbortController();
  const sweep = async () => {
    await removeOldKeys(db.sql);
    await removeOldTraces(db.sql);
    await createUploads({ database, objects, logger: silentLogger() }).sweep(signal);
    await createRetention({ database, removals, keysInUse: () => [] }).sweep(signal);
  };
  // With and without statistics: the planner must neither need them nor be misled by them.
  for (const known of [false, true]) {
    if (known) await db.sql`analyze`;
    // After this many runs plans are kept.
    for (let run = 0; run < 8; run++) await sweep();
    const before = await db.rowsRead(...tables);
    await sweep();
    const after = await db.rowsRead(...tables);
    for (const [n, table] of tables.entries())
      expect(
        (after[n] ?? Number.NaN) - (before[n] ?? Number.NaN),
        `${table}, ${known ? 'analyzed' : 'not analyzed'}`,
      ).toBeLessThan(5);
  }
});
