import type { EngineOption } from '@semblance/engine-api/option';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { estimate } from './estimate.ts';
import { readOrder, renderJobFor } from './render-jobs.ts';
import type { Submission } from './submission.ts';
import { bodyDigest } from './submit.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

const OPEN: readonly EngineOption[] = [
  { name: 'likeness', type: 'number', minimum: 0, maximum: 1, description: 'How much.' },
  { name: 'note', type: 'text', maxLength: 20, description: 'What.' },
];
const letThrough = (options: readonly EngineOption[] | null) =>
  db.sql`update capabilities set engine_options = ${options && db.sql.json(options)}::jsonb where name = 'face-swap-image'`;
beforeEach(() => letThrough(OPEN));

const jobsOf = async (accountId: string) => {
  const [row] = await db.sql<{ jobs: number; held: bigint }[]>`
    select (select count(*)::int from jobs where account_id = ${accountId}) as jobs, b.held_micros as held
      from account_balances b where b.account_id = ${accountId}`;
  return row;
};

test('options of a submit are kept with the job, and are in its RenderJob', async () => {
  const account = await db.account();
  const engineOptions = { likeness: '0.3', note: 'über' };
  const { jobId } = await db.submitter()(account.submission({ engineOptions }));
  const order = await readOrder(db.sql, jobId);
  expect(order?.engineOptions).toEqual(engineOptions);
  const limits = { pendingSeconds: 1, activeSeconds: 1, ttlSeconds: 1 };
  expect(
    renderJobFor(order as NonNullable<typeof order>, limits, 'x', { digests: false }).spec.engineOptions,
  ).toEqual(engineOptions);

  const { jobId: plain } = await db.submitter()(account.submission());
  const without = await readOrder(db.sql, plain);
  expect(without?.engineOptions).toEqual({});
  expect(
    renderJobFor(without as NonNullable<typeof order>, limits, 'x', { digests: false }).spec,
  ).not.toHaveProperty('engineOptions');
});

test('of submits in one transaction each keeps its own', async () => {
  const account = await db.account();
  const submit = db.submitter();
  const values = Array.from({ length: 20 }, (_, i) => (i % 2 ? { likeness: `0.${i}` } : undefined));
  const made = await Promise.all(
    values.map((given) => submit(account.submission(given ? { engineOptions: given } : {}))),
  );
  for (const [i, { jobId }] of made.entries())
    expect((await readOrder(db.sql, jobId))?.engineOptions).toEqual(values[i] ?? {});
});

const LIST =
  'The options of this capability are likeness (a number from 0 to 1), note (text of at most 20 characters).';
test.each<[string, Record<string, string>, string]>([
  ['unknown', { steps: '20' }, `engine_options.steps is not among the options. ${LIST}`],
  ['inherited', { constructor: '1' }, `engine_options.constructor is not among the options. ${LIST}`],
  ['out of bounds', { likeness: '1.1' }, `engine_options.likeness must be a number from 0 to 1. ${LIST}`],
  ['of another type', { likeness: 'true' }, `engine_options.likeness must be a number from 0 to 1. ${LIST}`],
  [
    'too long',
    { note: 'x'.repeat(21) },
    `engine_options.note must be text of at most 20 characters. ${LIST}`,
  ],
  [
    'wrong in two ways',
    { steps: '1', likeness: '-1' },
    `engine_options.steps is not among the options; engine_options.likeness must be a number from 0 to 1. ${LIST}`,
  ],
])(
  'an option that is %s is refused by its name, without a hold and a job',
  async (_what, engineOptions, message) => {
    const account = await db.account();
    const submission = account.submission({ engineOptions, idempotencyKey: 'k' });
    const refused = { code: 'invalid_input', message };
    await expect(db.submitter()(submission)).rejects.toMatchObject(refused);
    await expect(estimate(db.sql, submission, false)).rejects.toMatchObject(refused);
    expect(await jobsOf(account.accountId)).toEqual({ jobs: 0, held: 0n });
    // A refused submit does not use up its key.
    expect(await db.submitter()(account.submission({ idempotencyKey: 'k' }))).toMatchObject({
      replayed: false,
    });
  },
);

test.each<[string, Record<string, string>]>([
  ['a name that none has', { 'a b': '1' }],
  ['a NUL', { note: 'a\0' }],
  ['half a character', { note: '\ud83d' }],
  ['a value beyond all measure', { note: 'x'.repeat(2_001) }],
])('%s never reaches the database', async (_what, engineOptions) => {
  const account = await db.account();
  await expect(db.submitter()(account.submission({ engineOptions }))).rejects.toMatchObject({
    code: 'invalid_input',
    message: 'engine_options has a name or a value that cannot be used.',
  });
  const many = Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`o${i}`, '1']));
  await expect(db.submitter()(account.submission({ engineOptions: many }))).rejects.toMatchObject({
    message: 'engine_options has at most 16 options.',
  });
});

test.each<[string, readonly EngineOption[] | null]>([
  ['agents let nothing through', []],
  ['no agent was ever seen', null],
])('where %s, every option is refused, and a submit without goes on', async (_what, open) => {
  await letThrough(open);
  const account = await db.account();
  await expect(
    db.submitter()(account.submission({ engineOptions: { likeness: '0.3' } })),
  ).rejects.toMatchObject({
    code: 'invalid_input',
    message:
      'engine_options.likeness is not among the options. This capability has no options on this installation: leave `engine_options` out.',
  });
  await db.submitter()(account.submission());
});

test('a repeat finds its job whatever agents let through by now; with other options it is a conflict', async () => {
  const account = await db.account();
  const submit = db.submitter();
  const submission = account.submission({ engineOptions: { likeness: '0.3' }, idempotencyKey: 'k' });
  const first = await submit(submission);
  await letThrough([]);
  expect(await submit(submission)).toEqual({ jobId: first.jobId, replayed: true });
  for (const engineOptions of [{}, { likeness: '0.4' }] as Record<string, string>[])
    await expect(submit({ ...submission, engineOptions })).rejects.toMatchObject({
      code: 'invalid_input',
      message: expect.stringContaining('Idempotency-Key'),
    });
});

test('the digest of a body depends on its options, not on their order', () => {
  const body: Submission = {
    ...{ accountId: 'a', capability: 'avatar', inputs: {}, parameters: {}, callbackUrl: undefined },
    ...{ idempotencyKey: 'k', engineOptions: { a: '1', b: '2' } },
  };
  expect(bodyDigest({ ...body, engineOptions: { b: '2', a: '1' } })).toBe(bodyDigest(body));
  expect(bodyDigest({ ...body, engineOptions: { a: '2', b: '1' } })).not.toBe(bodyDigest(body));
  expect(bodyDigest({ ...body, engineOptions: {}, parameters: { a: '1', b: '2' } })).not.toBe(
    bodyDigest(body),
  );
});
