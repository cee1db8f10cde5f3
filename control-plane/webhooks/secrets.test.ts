import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { seedJobs, settleJobs } from '@semblance/testkit/control-plane/webhook-jobs';
import { afterEach, expect, test } from 'vitest';
import { migrate, readMigrations } from '../storage/migrate.ts';
import { createDeliveries } from './deliveries.ts';
import { promoteSecret, replaceSecretNow, rotateSecret, showSecret } from './secrets.ts';

const OLD = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYq';

let db: TestDatabase;
afterEach(() => db.close());

const secretsOf = (account: string) => db.sql.begin((tx) => showSecret(tx, account));
const valid = async (account: string) => {
  const rows = await db.sql<{ secret: string }[]>`
    select secret from webhook_secrets where account_id = ${account} and (retires_at is null or retires_at > now())
    order by id desc`;
  return rows.map(({ secret }) => secret);
};

/** The schema before every account with a callback had a secret, with the data that this release finds. */
async function formerRelease() {
  db = await testDatabase(12);
  const ids = await seedJobs(db.sql, ['https://example.com/hook', null], 6, 3);
  await db.sql`delete from webhook_secrets`;
  return ids;
}
const upgrade = async () => migrate(db.url, await readMigrations());

test('accounts whose deliveries a former release left get a secret with the migration, others do not', async () => {
  const ids = await formerRelease();
  await db.sql`update jobs set callback_url = null where account_id <> 'acct-0' and id <> ${ids[2] ?? ''}`;
  await settleJobs(db.sql, ids.slice(0, 1));
  await upgrade();
  const rows = await db.sql<{ id: string }[]>`select account_id as id from webhook_secrets order by 1`;
  expect(rows.map(({ id }) => id)).toEqual(['acct-0', 'acct-2']);
  const delivery = ids[0]?.replace('job-', 'dlv-') ?? '';
  const [claimed] = await createDeliveries(db.database, 30).claim([delivery]);
  expect(claimed?.secrets).toEqual({ current: [(await secretsOf('acct-0')).secret], next: undefined });
});

test('a secret of a former release stays what it is, and so does the one that it replaced, for its day', async () => {
  const ids = await formerRelease();
  await db.sql`
    insert into webhook_secrets (account_id, secret, retires_at)
    values ('acct-0', 'whsec_older', now() + interval '1 hour'), ('acct-0', 'whsec_oldest', now() - interval '1 hour')`;
  await db.sql`insert into webhook_secrets (account_id, secret) values ('acct-0', ${OLD})`;
  await settleJobs(db.sql, ids);
  await upgrade();
  expect(await secretsOf('acct-0')).toEqual({ secret: OLD, next: undefined });
  const next = await db.sql.begin((tx) => rotateSecret(tx, 'acct-0'));
  const delivery = ids[0]?.replace('job-', 'dlv-') ?? '';
  const [claimed] = await createDeliveries(db.database, 30).claim([delivery]);
  expect(claimed?.secrets).toEqual({ current: [OLD, 'whsec_older'], next });
});

test.each([
  ['promoted', promoteSecret],
  ['replaced at once', replaceSecretNow],
])('when a secret is %s, every other ends, one that a former release left too', async (_, change) => {
  db = await testDatabase();
  const { accountId } = await db.account();
  await db.sql`
    insert into webhook_secrets (account_id, secret, retires_at) values (${accountId}, 'whsec_older', now() + interval '1 day')`;
  const { secret } = await secretsOf(accountId);
  expect(await valid(accountId)).toEqual([secret, 'whsec_older']);
  await db.sql.begin((tx) => rotateSecret(tx, accountId));
  const made = await db.sql.begin((tx) => change(tx, accountId));
  expect(await valid(accountId)).toEqual([made]);
  expect(await secretsOf(accountId)).toEqual({ secret: made, next: undefined });
});

test('secrets are random, each of 32 bytes in base64', async () => {
  db = await testDatabase();
  const rows = await db.sql<{ secret: string }[]>`
    select new_webhook_secret() as secret from generate_series(1, 1000)`;
  const keys = rows.map(({ secret }) => Buffer.from(secret.replace(/^whsec_/, ''), 'base64'));
  expect(new Set(keys.map((key) => key.toString('hex'))).size).toBe(1_000);
  expect(keys.every((key) => key.length === 32)).toBe(true);
  expect(rows.every(({ secret }) => /^whsec_[A-Za-z0-9+/]{43}=$/.test(secret))).toBe(true);
});
