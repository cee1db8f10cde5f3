import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { estimate } from './estimate.ts';
import type { Submission } from './submission.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
  await db.sql`update capabilities set has_engine = true`;
});
afterAll(() => db.close());

const ask = (submission: Submission) => estimate(db.sql, submission, false);
const setRates = (
  capability: string,
  account: string | null,
  rates: { when: Record<string, string>; rate_micros: number }[],
  minimum: number,
  units: number,
) => db.sql`
  insert into rates (capability, account_id, unit, rates, minimum_micros, hold_milli_units)
  values (${capability}, ${account}, 'second', ${db.sql.json(rates)}::jsonb, ${minimum}, ${units})`;

test('what is estimated is what a submit then holds, of every capability, rate and parameter', async () => {
  const account = await db.account(1_000_000);
  const { image, video, audio } = account.files;
  const bodies: Partial<Submission>[] = [
    { capability: 'face-swap-image', inputs: { image, face: image } },
    { capability: 'face-swap', inputs: { video, face: image } },
    { capability: 'face-swap', inputs: { video, face: image }, parameters: { output_resolution_p: '480' } },
    { capability: 'face-swap', inputs: { video, face: image }, parameters: { output_resolution_p: '1080' } },
    { capability: 'character-swap', inputs: { video, character: image }, parameters: { resolution: '2k' } },
    { capability: 'motion-control', inputs: { image, motion_video: video } },
    { capability: 'avatar', inputs: { image }, parameters: { script: 'Hello' } },
    { capability: 'lip-sync', inputs: { video, audio } },
  ];
  const compare = async () => {
    for (const body of bodies) {
      const submission = account.submission(body);
      const estimated = await ask(submission);
      const { jobId } = await db.submitter()(submission);
      const [job] = await db.sql`
        select hold_micros, rate_micros, minimum_micros, unit from jobs where id = ${jobId}`;
      expect(
        {
          hold_micros: estimated.holdMicros,
          rate_micros: estimated.rateMicros,
          minimum_micros: estimated.minimumMicros,
          unit: estimated.unit,
        },
        body.capability,
      ).toEqual(job);
    }
  };
  await compare();
  for (let round = 0; round < 10; round++) {
    const random = (most: number) => Math.floor(Math.random() * most);
    for (const { capability = '' } of bodies)
      await setRates(
        capability,
        random(2) ? account.accountId : null,
        [
          { when: { output_resolution_p: '480' }, rate_micros: random(1_000) },
          { when: {}, rate_micros: random(100_000) },
        ],
        random(1_000_000),
        1 + random(100_000),
      );
    await compare();
  }
});

test('nothing is held or made, and no key is used up', async () => {
  const account = await db.account(1);
  const submission = account.submission({ idempotencyKey: 'k' });
  const before = await db.balances(account.accountId);
  await ask(submission);
  expect(await db.balances(account.accountId)).toEqual(before);
  const [row] = await db.sql`
    select (select count(*)::int from jobs where account_id = ${account.accountId}) as jobs,
           (select count(*)::int from idempotency_keys where account_id = ${account.accountId}) as keys`;
  expect(row).toEqual({ jobs: 0, keys: 0 });
});

test('whether the balance suffices counts what is held and reserved, to the micro-dollar', async () => {
  const account = await db.account(0);
  const { holdMicros } = await ask(account.submission());
  const sufficient = async () => (await ask(account.submission())).balanceSufficient;
  const topUp = (amount: bigint) => db.sql`
    insert into ledger_transfers (account_id, kind, debit, credit, amount_micros)
    values (${account.accountId}, 'top_up', 'funding', 'available', ${amount})`;
  await topUp(holdMicros - 1n);
  expect(await sufficient()).toBe(false);
  await topUp(1n);
  expect(await sufficient()).toBe(true);
  await db.sql`select reserve_block('ses-estimate', ${account.accountId}, 1)`;
  expect(await sufficient()).toBe(false);
  await db.sql`select release_block('ses-estimate')`;
  await db.submitter()(account.submission());
  expect(await sufficient()).toBe(false);
});

test('what a submit is refused for, its estimate is refused for, in the same words', async () => {
  const [account, other] = [await db.account(), await db.account()];
  const { image, video } = account.files;
  const refused = async (call: Promise<unknown>) =>
    call.then(
      () => 'taken',
      ({ code, message }) => ({ code, message }),
    );
  const bodies: Partial<Submission>[] = [
    { capability: 'voice' },
    { capability: 'constructor' },
    { inputs: { image } },
    { inputs: { image, face: 'x' } },
    { inputs: { image, face: 'api/never-seen' } },
    { inputs: { image, face: other.files.image } },
    { inputs: { image, face: video } },
    { inputs: { image, face: image, more: image } },
    { parameters: { 'a b': '1' } },
    { callbackUrl: 'here' },
  ];
  for (const body of bodies) {
    const submission = account.submission(body);
    const answer = await refused(ask(submission));
    expect(answer).toMatchObject({ code: 'invalid_input' });
    expect(answer).toEqual(await refused(db.submitter()(submission)));
  }
  await db.sql`update capabilities set switched_on = false where name = 'face-swap-image'`;
  const answer = await refused(ask(account.submission()));
  expect(answer).toMatchObject({ code: 'capability_unavailable' });
  expect(answer).toEqual(await refused(db.submitter()(account.submission())));
  await db.sql`update capabilities set switched_on = true where name = 'face-swap-image'`;
});

test('ceilings and a balance that is too low are no reason to refuse', async () => {
  const account = await db.account(0);
  await db.sql`update accounts set jobs_in_flight_limit = 0 where id = ${account.accountId}`;
  expect(await ask(account.submission())).toMatchObject({ balanceSufficient: false });
});
