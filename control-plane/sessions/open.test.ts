import { setTimeout as delay } from 'node:timers/promises';
import { silentLogger } from '@semblance/common/logging';
import {
  notLeading,
  refusing,
  SLOT,
  startScriptedOperator,
} from '@semblance/testkit/control-plane/scripted-operator';
import { holdSlot, offerSessions } from '@semblance/testkit/control-plane/sessions';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { switchCapability } from '../billing/rate-card.ts';
import { removeUpload } from '../media/media.ts';
import { readUsage } from '../usage/usage.ts';
import { ADDRESS_ANNOTATION, createAllocator, OPERATOR_LEASE } from './allocator.ts';
import { createOpener } from './open.ts';
import { sha256 } from './order.ts';

let db: TestDatabase;
type Operator = Awaited<ReturnType<typeof startScriptedOperator>>;
let operator: Operator;
/** Address of the leading operator in the Lease. */
let leader: string | undefined;
const deleted: string[] = [];
const outcomes: string[] = [];
let allocator: ReturnType<typeof createAllocator>;

beforeAll(async () => {
  db = await testDatabase();
  await offerSessions(db.sql);
});
afterAll(() => db.close());
beforeEach(async () => {
  operator = await startScriptedOperator();
  leader = operator.address;
  allocator = allocatorFor(60_000);
});
afterEach(async () => {
  allocator.close();
  await operator.close();
  deleted.length = 0;
  outcomes.length = 0;
});

/** @param patienceMs short only where no answer comes, because answers come late on a busy machine */
const allocatorFor = (patienceMs: number) =>
  createAllocator({ leases, namespace: 'n', logger: silentLogger(), patienceMs });

const leases = {
  get: (name: string) =>
    name === OPERATOR_LEASE && leader !== undefined
      ? { metadata: { name, annotations: { [ADDRESS_ANNOTATION]: leader } } }
      : undefined,
};

function opener(patienceMs?: number) {
  if (patienceMs) {
    allocator.close();
    allocator = allocatorFor(patienceMs);
  }
  return createOpener({
    database: db.database,
    voices: new Map(),
    allocator,
    kube: {
      async delete(_resource, { name }) {
        deleted.push(name);
        return true;
      },
    },
    namespace: 'n',
    logger: silentLogger(),
    onOutcome: (outcome) => outcomes.push(outcome),
  });
}

const call = () => ({ signal: new AbortController().signal, requestId: 'request-1' });
const voice = (accountId: string, more: object = {}) => ({
  accountId,
  capability: 'voice',
  durationMinutes: 10,
  prompt: '',
  voiceId: undefined,
  ...more,
});
const swap = (accountId: string, prompt: string) =>
  voice(accountId, { capability: 'full-live-swap', prompt });

async function booked(accountId: string) {
  const [row] = await db.sql<{ reserved: bigint; states: string[] }[]>`
    select b.reserved_micros as reserved,
           coalesce((select array_agg(s.state order by s.id) from sessions s where s.account_id = b.account_id), '{}') as states
    from account_balances b where b.account_id = ${accountId}`;
  expect(await db.faults(accountId)).toEqual([]);
  return row;
}

test('an opening sets the block aside, asks for a slot, and answers what was granted', async () => {
  const { accountId } = await db.account(0.3);
  const opened = await opener().open(voice(accountId), call());
  expect(opened).toMatchObject({ maxSeconds: 300, maxCostMicros: 300_000n });
  expect(opened.sessionId).toMatch(/^ses-[0-9a-z]{26}$/);
  expect(opened.token).toMatch(/^sst_[\w-]{43}$/);
  const [row] = await db.sql<{ token_sha256: Buffer; ticket: Buffer; agent_address: string }[]>`
    select token_sha256, ticket, agent_address from sessions where id = ${opened.sessionId}`;
  expect(row?.token_sha256).toEqual(sha256(opened.token));
  expect(operator.asked).toEqual([
    {
      sessionId: opened.sessionId,
      capability: 'voice',
      account: accountId,
      requestId: 'request-1',
      maxDurationSeconds: 300,
      connectDeadlineSeconds: 15,
      settings: {},
      inputs: {},
      ticketSha256: sha256(row?.ticket as Buffer),
    },
  ]);
  expect(row?.agent_address).toBe(SLOT.address);
  expect(await booked(accountId)).toEqual({ reserved: 300_000n, states: ['open'] });
  expect(outcomes).toEqual(['opened']);
});

test('50 at once share transactions, and every one has a slot of its own asking', async () => {
  const accounts = await Promise.all(Array.from({ length: 10 }, () => db.account(10)));
  const { open } = opener();
  const opened = await Promise.all(
    Array.from({ length: 50 }, (_, i) => open(voice(accounts[i % 10]?.accountId ?? ''), call())),
  );
  expect(new Set(opened.map(({ sessionId }) => sessionId)).size).toBe(50);
  expect(new Set(opened.map(({ token }) => token)).size).toBe(50);
  expect(operator.asked.map(({ sessionId }) => sessionId).sort()).toEqual(
    opened.map(({ sessionId }) => sessionId).sort(),
  );
  for (const { accountId } of accounts) expect((await booked(accountId))?.reserved).toBe(3_000_000n);
});

test('what cannot be asked is refused before anything is set aside', async () => {
  const { accountId } = await db.account(10);
  const { open } = opener();
  for (const wish of [
    voice(accountId, { durationMinutes: 0 }),
    voice(accountId, { durationMinutes: 121 }),
    voice(accountId, { durationMinutes: 1.5 }),
    voice(accountId, { voiceId: 'no-such-voice' }),
    voice(accountId, { voiceId: '' }),
    voice(accountId, { voiceId: 'a\0b' }),
    voice(accountId, { capability: 'face-swap' }),
    voice(accountId, { capability: 'toString' }),
    { ...swap(accountId, 'x'), durationMinutes: 241 },
    swap(accountId, '😀'.repeat(2_001)),
    swap(accountId, 'a\0b'),
  ])
    await expect(open(wish, call())).rejects.toMatchObject({ code: 'invalid_input' });
  await expect(open(voice((await db.account(0)).accountId), call())).rejects.toMatchObject({
    code: 'insufficient_balance',
    message: 'The shortest session needs 0.005 USD; 0 USD are available (available_usd of GET /balance).',
  });
  expect(operator.asked).toEqual([]);
  expect(await booked(accountId)).toEqual({ reserved: 0n, states: [] });
});

test('whether the capability is offered is judged before what an opening names', async () => {
  const { accountId, files } = await db.account(10);
  const { open } = opener();
  const [unknownVoice, unknownFace] = [
    voice(accountId, { voiceId: 'no-such-voice' }),
    swap(accountId, 'use api/up-nothing'),
  ];
  for (const capability of ['voice', 'full-live-swap']) await switchCapability(db.sql, capability, false);
  try {
    for (const wish of [unknownVoice, unknownFace, swap(accountId, files.video)])
      await expect(open(wish, call())).rejects.toMatchObject({ code: 'capability_unavailable' });
    // A faulty field is refused whatever is offered.
    const many = voice(accountId, { durationMinutes: 121, voiceId: 'no-such-voice' });
    await expect(open(many, call())).rejects.toMatchObject({ code: 'invalid_input' });
  } finally {
    for (const capability of ['voice', 'full-live-swap']) await switchCapability(db.sql, capability, true);
  }
  await expect(open(unknownVoice, call())).rejects.toMatchObject({
    code: 'invalid_input',
    message: '`voice_profile_id` is not a voice: take an `id` from GET /voices.',
  });
  // It is also refused before the balance is checked.
  const poor = voice((await db.account(0)).accountId, { voiceId: 'no-such-voice' });
  await expect(open(poor, call())).rejects.toMatchObject({ code: 'invalid_input' });
  expect(await booked(accountId)).toEqual({ reserved: 0n, states: [] });
});

test('the face that a prompt names must be an image of the account, and cannot be deleted while the session lasts', async () => {
  const [{ accountId, files }, other] = [await db.account(10), await db.account(10)];
  const { open } = opener();
  for (const key of [other.files.image, 'api/up-nothing', files.video])
    await expect(open(swap(accountId, `use ${key}`), call())).rejects.toMatchObject({
      code: 'invalid_input',
    });
  const { sessionId } = await open(swap(accountId, `look like ${files.image}.`), call());
  expect(operator.asked).toMatchObject([
    { inputs: { face: files.image }, settings: { prompt: `look like ${files.image}.` } },
  ]);
  const remove = () =>
    db.sql.begin((tx) =>
      removeUpload(tx, { fileKey: files.image, accountId }, { by: 'owner', actor: 'key-1' }),
    );
  await expect(remove()).rejects.toMatchObject({ code: 'invalid_input' });
  await db.sql`select settle_session(${sessionId}, 'cancelled', null)`;
  expect((await remove()).deletedInputs).toEqual([files.image]);
  await expect(open(swap(accountId, files.image), call())).rejects.toMatchObject({ code: 'invalid_input' });
});

test.each(['capacity_warming', 'capacity_unavailable'] as const)(
  'refused with %s: the block is free again at once, and no call was made',
  async (code) => {
    const { accountId } = await db.account(0.6);
    operator.does(refusing(code));
    const { open } = opener();
    for (let i = 0; i < 3; i++) await expect(open(voice(accountId), call())).rejects.toMatchObject({ code });
    expect(await booked(accountId)).toEqual({ reserved: 0n, states: ['refused', 'refused', 'refused'] });
    expect(await readUsage(db.sql, accountId, undefined, 10)).toEqual([]);
    // There is no LiveSession to delete.
    expect(deleted).toEqual([]);
    operator.does(async () => SLOT);
    expect(await open(voice(accountId), call())).toMatchObject({ maxSeconds: 600 });
    expect(outcomes).toEqual([code, code, code, 'opened']);
  },
);

test('an operator that does not lead yet, dies or moves is asked again, for the same session', async () => {
  const { accountId } = await db.account(10);
  const { open } = opener();
  operator.does(async (request, signal) => {
    if (operator.asked.length < 3) return notLeading(request, signal);
    return SLOT;
  });
  const { sessionId } = await open(voice(accountId), call());
  expect(operator.asked.map((one) => one.sessionId)).toEqual([sessionId, sessionId, sessionId]);

  // It dies during the call; the next one leads at another address.
  const next = await startScriptedOperator();
  operator.does(() => new Promise(() => {}));
  const opening = open(voice(accountId), call());
  await expect.poll(() => operator.asked.length).toBe(4);
  leader = next.address;
  await operator.close();
  const moved = await opening;
  expect(operator.asked.at(-1)?.sessionId).toBe(moved.sessionId);
  expect(next.asked.map((one) => one.sessionId)).toEqual([moved.sessionId]);
  allocator.close();
  await next.close();
});

test('nobody leads: refused in words after a while, with nothing left behind', async () => {
  const { accountId } = await db.account(10);
  leader = undefined;
  await expect(opener(1_500).open(voice(accountId), call())).rejects.toMatchObject({
    code: 'capacity_unavailable',
  });
  expect(await booked(accountId)).toEqual({ reserved: 0n, states: ['refused'] });
});

test('an operator that never answers: nothing is set aside, and what it may have made is deleted', async () => {
  const { accountId } = await db.account(10);
  operator.does(() => new Promise(() => {}));
  await expect(opener(1_500).open(voice(accountId), call())).rejects.toMatchObject({
    code: 'internal_error',
  });
  expect(await booked(accountId)).toEqual({ reserved: 0n, states: ['refused'] });
  expect(new Set(deleted)).toEqual(new Set([operator.asked[0]?.sessionId]));
});

test('a caller that is gone before the answer leaves no session behind', async () => {
  const { accountId } = await db.account(10);
  const gone = new AbortController();
  operator.does(async () => {
    gone.abort(new Error('the caller cancelled'));
    await delay(50);
    return SLOT;
  });
  await expect(opener().open(voice(accountId), { signal: gone.signal })).rejects.toThrow();
  expect(await booked(accountId)).toEqual({ reserved: 0n, states: ['refused'] });
  expect(deleted).toEqual([operator.asked[0]?.sessionId]);
});

test('a process that dies between block and slot: given up by its age, and whoever comes late gives the slot back', async () => {
  const { accountId } = await db.account(10);
  let answer = () => {};
  operator.does(
    () =>
      new Promise((resolve) => {
        answer = () => resolve(SLOT);
      }),
  );
  const opening = opener().open(voice(accountId), call());
  await expect.poll(() => operator.asked.length).toBe(1);
  expect(await booked(accountId)).toEqual({ reserved: 600_000n, states: ['opening'] });
  await db.sql`update sessions set asked_at = now() - interval '31 seconds' where account_id = ${accountId}`;
  await db.sql`select * from expire_sessions(0, null, null, null)`;
  expect(await booked(accountId)).toEqual({ reserved: 0n, states: ['refused'] });
  answer();
  await expect(opening).rejects.toMatchObject({ code: 'capacity_unavailable' });
  expect(deleted).toEqual([operator.asked[0]?.sessionId]);
  expect(await holdSlot(db.sql, operator.asked[0]?.sessionId ?? '')).toBe(false);
});
