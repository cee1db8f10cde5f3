import type { SubmitJobRequest, SubmitJobResult } from '@semblance/proto/semblance/control/v1/control';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createGate } from '../accounts/gate.ts';
import type { Submission } from '../jobs/submission.ts';
import type { Submitted } from '../jobs/submit.ts';
import { submitTogether } from './together.ts';

let db: TestDatabase;
const lines: string[] = [];
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());
beforeEach(() => {
  lines.length = 0;
});

function submitting(submit: (submission: Submission) => Promise<Submitted> = db.submitter()) {
  const logger = pino({ level: 'error' }, { write: (line: string) => void lines.push(line) });
  return submitTogether({ gate: createGate(db.database), submit, logger });
}

type Account = Awaited<ReturnType<TestDatabase['account']>>;
const requestOf = (
  { caller, submission }: Account,
  more: Partial<SubmitJobRequest> = {},
): SubmitJobRequest => {
  const { capability, inputs, parameters, engineOptions } = submission();
  return {
    caller,
    capability,
    inputs: { ...inputs },
    parameters: { ...parameters },
    engineOptions: { ...engineOptions },
    ...more,
  };
};
const said = ({ outcome, rateLimit }: SubmitJobResult) => [
  outcome?.$case === 'submitted'
    ? `${outcome.value.status}${outcome.value.replayed ? ' again' : ''}`
    : outcome?.value.code,
  rateLimit.replace(/,reset=\d+$/, ''),
];
const jobsOf = async ({ accountId }: Account): Promise<number> => {
  const [row] = await db.sql<
    { n: number }[]
  >`select count(*)::int n from jobs where account_id = ${accountId}`;
  return row?.n ?? 0;
};

describe('submitTogether', () => {
  it('gives each its own end and its own place in the rate limit; one that is refused takes no other along', async () => {
    const [owner, poor, hasty] = [await db.account(10), await db.account(0), await db.account(10, 1)];
    const results = await submitting()([
      requestOf(owner),
      requestOf(poor),
      requestOf(owner, { caller: undefined }),
      requestOf(owner, { caller: { keySha256: Buffer.alloc(32) } }),
      requestOf(owner, { inputs: { image: 'api/nothing', face: 'nowhere' } }),
      requestOf(owner, { inputs: {} }),
      requestOf(hasty),
      requestOf(hasty),
    ]);
    expect(results.map(said)).toEqual([
      ['queued', 'limit=1000000,remaining=999999'],
      ['insufficient_balance', 'limit=1000000,remaining=999999'],
      ['unauthorized', ''],
      ['unauthorized', ''],
      ['invalid_input', 'limit=1000000,remaining=999998'],
      ['invalid_input', 'limit=1000000,remaining=999997'],
      ['queued', 'limit=1,remaining=0'],
      ['rate_limited', 'limit=1,remaining=0'],
    ]);
    expect([await jobsOf(owner), await jobsOf(poor), await jobsOf(hasty)]).toEqual([1, 0, 1]);
    expect(lines).toEqual([]);
  });

  it('makes one job of one Idempotency-Key, also within a message', async () => {
    const owner = await db.account(10);
    const request = requestOf(owner, { idempotencyKey: 'k' });
    const results = await submitting()([request, request, requestOf(owner), request]);
    expect(results.map((result) => said(result)[0]).sort()).toEqual([
      'queued',
      'queued',
      'queued again',
      'queued again',
    ]);
    const ids = [0, 1, 3].map(
      (i) => results[i]?.outcome?.$case === 'submitted' && results[i].outcome.value.id,
    );
    expect(new Set(ids).size).toBe(1);
    expect(await jobsOf(owner)).toBe(2);
  });

  it('says of one that fails nothing but that it failed, and logs why by the id of its request', async () => {
    const owner = await db.account(10);
    const real = db.submitter();
    const submit = submitting((submission) =>
      submission.idempotencyKey === 'bad' ? Promise.reject(new Error('the disk is gone')) : real(submission),
    );
    const results = await submit([
      requestOf(owner, { requestId: 'r-good' }),
      requestOf(owner, { requestId: 'r-bad', idempotencyKey: 'bad' }),
    ]);
    expect(results.map((result) => said(result)[0])).toEqual(['queued', 'internal_error']);
    expect(
      JSON.stringify(results, (_, value) => (typeof value === 'bigint' ? `${value}` : value)),
    ).not.toContain('disk');
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { requestId: 'r-bad', method: 'SubmitJobs' },
    ]);
  });
});
