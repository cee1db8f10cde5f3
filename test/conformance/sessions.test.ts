import { type Answer, apiOf } from '@semblance/testkit/stack/api';
import { eventually } from '@semblance/testkit/stack/eventually';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { endSession, type SessionRecord } from '@semblance/testkit/stack/live-session';
import { type Contract, readContract } from '@semblance/testkit/stack/openapi';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { beforeAll, describe, expect, test } from 'vitest';

let stack: Stack;
let account: Account;
let contract: Contract;
/** Capabilities that are enabled according to the rate card. */
let enabled: Set<string>;

beforeAll(async () => {
  stack = await sharedStack();
  // More than the longest session costs, because a session holds its money until it is settled.
  account = await stack.newAccount({ balanceUsd: 10_000 });
  contract = await readContract(account.api.baseUrl);
  const card = (await account.api.get('/pricing')).body as {
    capabilities: { capability: string; enabled: boolean }[];
  };
  enabled = new Set(card.capabilities.filter((one) => one.enabled).map(({ capability }) => capability));
}, 240_000);

type Body = Record<string, unknown>;

interface UsageEntry {
  readonly status: string;
}

const MINUTES: [string, Body][] = [
  ['an int', { duration_minutes: 1.5 }],
  ['an int', { duration_minutes: '10' }],
  ['an int', { duration_minutes: true }],
  ['an int', { duration_minutes: [10] }],
  ['an int', { duration_minutes: { minutes: 10 } }],
  ['at least 1', { duration_minutes: 0 }],
  ['at least 1', { duration_minutes: -10 }],
  ['an int that numbers hold', { duration_minutes: 1e300 }],
];

/** The tables of the specification: valid bodies, and faulty fields of invalid ones. */
const OPENS: Record<string, { capability: string; sound: [string, Body][]; wrong: [string, Body][] }> = {
  '/full-live-swap/session': {
    capability: 'full-live-swap',
    sound: [
      ['Live Swap Pro duration: 1 to 240 minutes', { duration_minutes: 1 }],
      ['Live Swap Pro duration: 1 to 240 minutes', { duration_minutes: 240 }],
      ['A default is used when omitted', { duration_minutes: 10, prompt: null }],
      ['Live Swap Pro prompt: 2,000 characters', { duration_minutes: 10, prompt: 'x'.repeat(2_000) }],
      // Characters are code points: these take 4,000 code units and 8,000 bytes.
      ['Live Swap Pro prompt: 2,000 characters', { duration_minutes: 10, prompt: '😀'.repeat(2_000) }],
    ],
    wrong: [
      ['duration_minutes is required', { duration_minutes: undefined }],
      ['duration_minutes is required', { duration_minutes: null }],
      ['duration_minutes is 1 to 240', { duration_minutes: 241 }],
      ['prompt is a string', { prompt: 5 }],
      ['prompt is a string', { prompt: ['x'] }],
      ['prompt: up to 2,000 characters', { prompt: 'x'.repeat(2_001) }],
      ['prompt: up to 2,000 characters', { prompt: '😀'.repeat(2_001) }],
      ['prompt: up to 2,000 characters', { prompt: 'x'.repeat(200_000) }],
      ['prompt is text', { prompt: 'a\0b' }],
      ['prompt is text', { prompt: '\ud83d' }],
    ],
  },
  '/voice/session': {
    capability: 'voice',
    sound: [
      ['no field is required', {}],
      ['no field is required', { duration_minutes: null, voice_profile_id: null }],
      ['Voice Swap duration: 1 to 120 minutes', { duration_minutes: 1 }],
      ['Voice Swap duration: 1 to 120 minutes', { duration_minutes: 120 }],
    ],
    wrong: [
      ['duration_minutes is 1 to 120', { duration_minutes: 121 }],
      ['voice_profile_id is an `id` from GET /voices', { voice_profile_id: '' }],
      ['voice_profile_id is a string', { voice_profile_id: 7 }],
      ['voice_profile_id is a string', { voice_profile_id: {} }],
    ],
  },
};

describe.each(Object.entries(OPENS))('POST %s', (path, { capability, sound, wrong }) => {
  const good = { duration_minutes: 10 };

  /**
   * Checks the answer to a valid request. A disabled capability is refused as such; an enabled one opens a session
   * or says that no slot is free.
   */
  async function expectDecided(answer: Answer) {
    if (!enabled.has(capability)) expectError(answer, 'capability_unavailable');
    else if (answer.status === 200) await endSession(answer.body as SessionRecord);
    else expectError(answer, 'capacity_unavailable', 'capacity_warming', 'at_capacity');
    const operation = contract.operations.find((one) => one.path === path);
    if (!operation) throw new Error(`${path} is not in the document`);
    expect(contract.faultsOf(operation, answer)).toEqual([]);
  }

  test.each(sound)(
    'a capability that is off is `capability_unavailable` (400): %s (case %#)',
    async (_rule, body) => {
      await expectDecided(await account.api.post(path, body));
    },
  );

  test.each([...MINUTES, ...wrong])(
    'Any field failing validation yields `invalid_input` (400): %s (case %#)',
    async (_rule, change) => {
      const answer = await account.api.post(path, { ...good, ...change });
      expect(expectError(answer, 'invalid_input')).toContain(Object.keys(change)[0]);
    },
  );

  test.each(['', '{"duration_minutes"', '[]', 'null', '"x"', '5'])(
    'a body that is no JSON object is `invalid_input`: %j',
    async (body) => {
      const headers = { 'content-type': 'application/json' };
      const answer = await account.api.request('POST', path, { headers, body });
      // Voice Swap has no required field, so the body may be empty.
      if (body === '' && capability === 'voice') await expectDecided(answer);
      else expectError(answer, 'invalid_input');
    },
  );

  test('Idempotency-Key does not apply to session opens', async () => {
    for (const key of ['same', 'same', 'x'.repeat(300)]) {
      const answer = await account.api.post(path, good, { 'idempotency-key': key });
      await expectDecided(answer);
      expect(answer.headers.get('idempotent-replayed')).toBeNull();
    }
  });

  test('401 comes before 429, 429 before what is wrong with the request; refused calls count', async () => {
    expectError(await apiOf({ baseUrl: stack.api.baseUrl }).post(path, []), 'unauthorized');
    const { api } = await stack.newAccount({ perMinute: 2 });
    expectError(await api.post(path, []), 'invalid_input');
    await expectDecided(await api.post(path, good));
    expectError(await api.post(path, good), 'rate_limited');
    expectError(await api.post(path, []), 'rate_limited');
  });

  test('nothing is debited at open, and what never starts costs nothing', async () => {
    const { api } = await stack.newAccount({ balanceUsd: 0 });
    const answer = await api.post(path, good);
    // A disabled capability is refused as such, before the balance is checked.
    if (enabled.has(capability)) expectError(answer, 'insufficient_balance');
    else expectError(answer, 'capability_unavailable');
    const own = await stack.newAccount({ balanceUsd: 20 });
    const opened = await own.api.post(path, good);
    expect(await own.api.balance()).toMatchObject({ balance_usd: 20, total_spent_usd: 0 });
    await expectDecided(opened);
    await eventually('the session to be settled', async () => {
      const [entry] = (await own.api.get('/usage')).body as UsageEntry[];
      return opened.status !== 200 || entry?.status === 'failed' || undefined;
    });
    expect(await own.api.balance()).toMatchObject({ balance_usd: 20, total_spent_usd: 0 });
  });
});

describe('GET /voices', () => {
  test('Response: JSON array of voice records', async () => {
    const answer = await account.api.get('/voices');
    expect(answer.status).toBe(200);
    const voices = answer.body as unknown[];
    expect(Array.isArray(voices)).toBe(true);
    // The reference clip of a voice is never exposed to the caller.
    for (const voice of voices)
      expect(voice).toEqual({
        id: expect.any(String),
        name: expect.any(String),
        description: expect.any(String),
        preview_url: expect.any(String),
      });
  });

  // As with uploads, a disabled capability is refused before the voice is checked.
  test('voice_profile_id is an `id` from it, any other is `invalid_input`', async () => {
    const answer = await account.api.post('/voice/session', { voice_profile_id: 'no-such-voice' });
    if (enabled.has('voice')) expect(expectError(answer, 'invalid_input')).toContain('voice_profile_id');
    else expectError(answer, 'capability_unavailable');
  });

  test('without a key: `unauthorized`', async () => {
    expectError(await apiOf({ baseUrl: stack.api.baseUrl }).get('/voices'), 'unauthorized');
  });
});
