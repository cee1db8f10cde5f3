import { setTimeout as delay } from 'node:timers/promises';
import { newId } from '@semblance/common/ids';
import { output, type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Transaction } from '../storage/sql.ts';
import { removeJobMedia, removeUpload } from './media.ts';
import { removeUploads } from './removals.ts';

let db: TestDatabase;

beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

/** Returns whether the work is still waiting after a while. */
async function waits(work: Promise<unknown>): Promise<boolean> {
  const ended = work.then(
    () => true,
    () => true,
  );
  return Promise.race([ended.then(() => false), delay(300, true)]);
}

test('a deletion waits for a submit that is not committed, and then keeps what it uses', async () => {
  const account = await db.account();
  const job = newId('job-');
  let deletion: Promise<unknown> = Promise.resolve();
  await db.sql.begin(async (tx) => {
    const request = {
      job,
      account: account.accountId,
      capability: 'face-swap-image',
      parameters: {},
      inputs: ['image', 'face'].map((role) => ({ role, key: account.files.image, kind: 'image' })),
      callback: null,
      idempotency_key: null,
      body_sha256: '00',
    };
    const [row] = await tx<{ outcome: string }[]>`
      select (result).outcome from submit_jobs(${tx.json([request])}::jsonb)`;
    expect(row?.outcome).toBe('accepted');
    deletion = db.sql.begin((other) =>
      removeUpload(
        other,
        { fileKey: account.files.image, accountId: account.accountId },
        { by: 'owner', actor: 'key-1' },
      ),
    );
    expect(await waits(deletion)).toBe(true);
  });
  await expect(deletion).rejects.toMatchObject({ code: 'invalid_input' });
  expect(await db.sql`select 1 from uploads where file_key = ${account.files.image}`).toHaveLength(1);
});

test('a submit waits for a deletion that is not committed, and then finds the key unknown', async () => {
  const account = await db.account();
  let submit: Promise<unknown> = Promise.resolve();
  await db.sql.begin(async (tx) => {
    const gone = await removeUploads(tx, account.accountId, [account.files.image], { by: 'retention' });
    expect(gone).toEqual({ fileKeys: [account.files.image], objectKeys: [account.files.image] });
    submit = db.submitter()(account.submission());
    expect(await waits(submit)).toBe(true);
  });
  await expect(submit).rejects.toMatchObject({ code: 'invalid_input' });
});

test('a deletion that is rolled back deletes nothing', async () => {
  const account = await db.account();
  const failing = db.sql.begin(async (tx) => {
    await removeUploads(tx, account.accountId, [account.files.image], { by: 'retention' });
    throw new Error('killed here');
  });
  await expect(failing).rejects.toThrow('killed here');
  expect(await db.sql`select 1 from media_removals where object_key = ${account.files.image}`).toEqual([]);
  await db.submitter()(account.submission());
});

test('deleting the files of a job and settling others of its account never wait for each other', async () => {
  const account = await db.account();
  const submit = db.submitter();
  const { jobId } = await submit(account.submission());
  const { jobId: other } = await submit(
    account.submission({ inputs: { image: account.files.image, face: account.files.image } }),
  );
  const settle = (tx: Transaction, ids: string[]) => {
    const requests = ids.map((job) => ({ job, uid: null, output: { ...output(), key: `out/${job}/1.png` } }));
    return tx<{ outcome: string }[]>`
      select (result).outcome from settle_jobs(${tx.json(requests)}::jsonb) order by place`;
  };
  await settle(db.sql, [jobId]);
  let deletion: Promise<unknown> = Promise.resolve();
  await db.sql.begin(async (tx) => {
    // A batch of another process, stopped between its jobs and its accounts.
    await tx`select 1 from jobs where id = any(${[jobId, other]}::text[]) order by id for no key update`;
    deletion = db.sql.begin((second) =>
      removeJobMedia(
        second,
        { jobId, accountId: account.accountId, inputs: true },
        { by: 'owner', actor: 'key-1' },
      ),
    );
    expect(await waits(deletion)).toBe(true);
    expect(await settle(tx, [jobId, other])).toEqual([{ outcome: 'already' }, { outcome: 'settled' }]);
  });
  expect(await deletion).toMatchObject({ outputDeleted: true, deletedInputs: [account.files.image] });
});
