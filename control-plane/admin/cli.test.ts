import { json, system } from '@semblance/testkit/control-plane/admin';
import {
  callerOf,
  photoSwap,
  succeed,
  untilJob,
  untilRenderJob,
  upload,
} from '@semblance/testkit/control-plane/control-plane';
import { openSession } from '@semblance/testkit/control-plane/sessions';
import { expect, test } from 'vitest';

test('an account is made, topped up, shown; a top-up under one reference is booked once', async () => {
  const made = await json('account', 'create', '--name', 'Ada', '--balance-usd', '5');
  expect(made.code).toBe(0);
  expect(made.answer).toEqual({
    account_id: expect.stringMatching(/^acct-/),
    key_id: expect.stringMatching(/^key-/),
    api_key: expect.stringMatching(/^sk_live_[\w-]{43}$/),
  });
  const { control, ask } = system.client;
  const balance = await ask(control.getBalance.bind(control), { caller: callerOf(made.answer.api_key) });
  expect(balance.balanceMicros).toBe(5_000_000n);

  const account = made.answer.account_id;
  const again = ['account', 'topup', '--account', account, '--usd', '2.5', '--reference', 'invoice 7'];
  expect((await json(...again)).answer).toMatchObject({ account_id: account, balance: 7.5, ledger_ok: true });
  expect((await json(...again)).answer).toMatchObject({ balance: 7.5 });
  const other = await json(
    'account',
    'topup',
    '--account',
    account,
    '--usd',
    '3',
    '--reference',
    'invoice 7',
  );
  expect(other).toMatchObject({ code: 1, answer: { error: { code: 'invalid_input' } } });
  expect((await json('account', 'show', `--account=${account}`)).answer).toEqual({
    account_id: account,
    name: 'Ada',
    balance: 7.5,
    holds: 0,
    holds_open: 0,
    reserved: 0,
    ledger_ok: true,
  });
});

test('keys are made, limited and revoked, with effect on the next call', async () => {
  const { answer } = await json('account', 'create', '--name', 'Grace');
  const key = (await json('key', 'create', '--account', answer.account_id)).answer;
  expect(Object.keys(key)).toEqual(['key_id', 'api_key']);
  const { control, ask } = system.client;
  const authorize = () => ask(control.authorize.bind(control), { caller: callerOf(key.api_key) });
  expect((await authorize()).keyId).toBe(key.key_id);
  expect((await json('key', 'limit', '--key', key.key_id, '--per-minute', '1')).answer).toEqual({
    key_id: key.key_id,
    account_id: answer.account_id,
    name: null,
    prefix: key.api_key.slice(0, 14),
    per_minute: 1,
    scopes: ['submit', 'read', 'sessions', 'account'],
    expires_at: null,
    allowed_addresses: [],
    cap_day_usd: null,
    cap_month_usd: null,
    last_used_at: expect.stringMatching(/^\d{4}-.*Z$/),
    created_at: expect.stringMatching(/^\d{4}-.*Z$/),
    revoked_at: null,
  });
  await expect(authorize()).rejects.toMatchObject({ code: 'rate_limited' });
  expect((await json('key', 'revoke', '--key', key.key_id)).answer.revoked_at).toMatch(/^\d{4}-.*Z$/);
  await expect(authorize()).rejects.toMatchObject({ code: 'unauthorized' });
  const { answer: keys } = await json('key', 'list', '--account', answer.account_id);
  expect(keys).toMatchObject([
    { key_id: key.key_id, per_minute: 1, revoked_at: expect.stringMatching(/^\d{4}-.*Z$/) },
    { key_id: answer.key_id, account_id: answer.account_id, revoked_at: null },
  ]);
  expect(JSON.stringify(keys)).not.toContain(key.api_key.slice(0, 20));
});

test('accounts are found by a part of their name, the newest first, with their balances', async () => {
  const make = async (name: string, balance: string) =>
    (await json('account', 'create', '--name', name, '--balance-usd', balance)).answer.account_id;
  const first = await make('Zuse 100%', '4');
  const second = await make('konrad ZUSE', '0.000001');
  const list = async (...flags: string[]) => (await json('account', 'list', ...flags)).answer;
  const entries = [
    expect.objectContaining({ account_id: second, name: 'konrad ZUSE', balance: 0.000001, keys: 1 }),
    {
      account_id: first,
      name: 'Zuse 100%',
      balance: 4,
      holds: 0,
      reserved: 0,
      keys: 1,
      created_at: expect.stringMatching(/^\d{4}-.*Z$/),
    },
  ];
  expect(await list('--search', 'zuse')).toEqual(entries);
  expect(await list('--search', 'zuse', '--limit', '1')).toEqual(entries.slice(0, 1));
  expect((await list()).slice(0, 2)).toEqual(entries);
  // No character in it is a pattern.
  expect(await list('--search', '100%')).toEqual(entries.slice(1));
  expect(await list('--search', 'z%e')).toEqual([]);
  expect(await json('account', 'list', '--limit', '1001')).toMatchObject({
    code: 1,
    answer: { error: { code: 'invalid_input' } },
  });
  expect((await json('key', 'list', '--account', 'acct-none')).answer.error.code).toBe('not_found');
});

test.each([
  [['account', 'create'], 2, 'usage', 'needs --name'],
  [['account', 'frobnicate'], 2, 'usage', 'There is no command "account frobnicate"'],
  [['rates', 'show'], 2, 'usage', 'There is no command "rates show"'],
  [['usage'], 2, 'usage', 'usage list needs --account'],
  [['usage', '--account', 'acct-none'], 1, 'not_found', 'acct-none'],
  [['account', 'create', '--name', 'x', '--colour', 'red'], 2, 'usage', '"--colour" means nothing'],
  [['account', 'create', '--name'], 2, 'usage', '--name needs a value'],
  [['account', 'create', '--name', 'x', '--balance-usd', '1.0000001'], 2, 'usage', 'six decimals'],
  [['account', 'create', '--name', 'x', '--balance-usd', '-1'], 1, 'invalid_input', 'not negative'],
  [['account', 'create', '--name', ' '], 1, 'invalid_input', '1 to 200 characters'],
  [['account', 'show', '--account', 'acct-none'], 1, 'not_found', 'acct-none'],
  [['account', 'topup', '--account', 'acct-none', '--usd', '1'], 1, 'not_found', 'acct-none'],
  [['key', 'create', '--account', 'acct-none'], 1, 'not_found', 'acct-none'],
  [['key', 'revoke', '--key', 'key-none'], 1, 'not_found', 'key-none'],
  [['key', 'limit', '--key', 'key-none', '--per-minute', '0'], 1, 'invalid_input', '1 to 1000000'],
  [['key', 'limit', '--key', 'key-none', '--per-minute', 'many'], 2, 'usage', 'whole number'],
])('%j is refused and explained', async (args, code, errorCode, message) => {
  const refused = await json(...args);
  expect(refused.code).toBe(code);
  expect(refused.answer.error.code).toBe(errorCode);
  expect(refused.answer.error.message).toContain(message);
});

test('capabilities are switched; one without an engine is not offered even when switched on', async () => {
  const set = async (verb: string, name: string) => (await json('capability', verb, '--name', name)).answer;
  expect(await set('disable', 'face-swap-image')).toEqual({ capability: 'face-swap-image', enabled: false });
  expect(await set('enable', 'face-swap-image')).toEqual({ capability: 'face-swap-image', enabled: true });
  expect(await set('enable', 'voice')).toEqual({ capability: 'voice', enabled: false });
  expect((await set('enable', 'mind-swap')).error.code).toBe('invalid_input');
});

test('live sessions are listed, all or the open ones, and ended', async () => {
  const { answer } = await json('account', 'create', '--name', 'Sessions', '--balance-usd', '1');
  const of = ['--account', answer.account_id];
  const { sql } = system.database;
  const [first, second] = [
    await openSession(sql, answer.account_id),
    await openSession(sql, answer.account_id),
  ];
  await sql`select settle_session(${first}, null, null)`;
  const listed = (await json('session', 'list', ...of)).answer;
  expect(listed).toMatchObject([
    {
      session_id: second,
      state: 'open',
      agent: 'agent-1',
      max_duration_sec: 60,
      max_cost_usd: 0.06,
      charged_usd: null,
    },
    { session_id: first, state: 'ended', streamed_sec: 0, charged_usd: 0, reason: 'no_stream' },
  ]);
  expect((await json('session', 'list', '--open', ...of)).answer).toEqual([listed[0]]);
  expect((await json('session', ...of, '--open')).answer).toEqual([listed[0]]);
  expect((await json('account', 'show', ...of)).answer).toMatchObject({
    balance: 1,
    reserved: 0.06,
    ledger_ok: true,
  });
  expect((await json('session', 'end', '--session', second)).answer).toEqual({
    ...listed[0],
    end_requested: true,
  });
  expect(await json('session', 'end', '--session', first)).toMatchObject({
    code: 1,
    answer: { error: { code: 'invalid_input', message: 'The session has ended.' } },
  });
  expect((await json('session', 'end', '--session', 'ses-none')).answer.error.code).toBe('not_found');
  expect((await json('session', 'list', ...of, '--open=perhaps')).answer.error.code).toBe('usage');
});

test('limits of an account are set one by one', async () => {
  const { answer } = await json('account', 'create', '--name', 'Limits');
  const set = async (...flags: string[]) =>
    (await json('limit', 'set', '--account', answer.account_id, ...flags)).answer;
  expect(await set('--jobs-in-flight', '7')).toEqual({
    account_id: answer.account_id,
    jobs_in_flight: 7,
    live_sessions: 10,
    stored_mb: 20_000,
    daily_mb: 1_000,
    failed_slot_seconds: 900,
  });
  expect(await set('--live-sessions', '0')).toMatchObject({ jobs_in_flight: 7, live_sessions: 0 });
  expect((await set('--jobs-in-flight', '1000001')).error.code).toBe('invalid_input');
  expect(await set('--stored-mb', '5', '--daily-mb', '6', '--failed-slot-seconds', '8')).toMatchObject({
    live_sessions: 0,
    stored_mb: 5,
    daily_mb: 6,
    failed_slot_seconds: 8,
  });
});

test('limits of an account are shown, with what is used of them', async () => {
  const { answer } = await json('account', 'create', '--name', 'Shown limits');
  const account = answer.account_id;
  await json('limit', 'set', '--account', account, '--stored-mb', '3');
  await json('settings', 'set', '--name', 'failed_slot_seconds_per_hour', '--value', 'never');
  expect((await json('limit', 'show', '--account', account)).answer).toEqual([
    { name: 'jobs_in_flight', limit: 100, own: false, used: 0 },
    { name: 'live_sessions', limit: 10, own: false, used: 0 },
    { name: 'stored_mb', limit: 3, own: true, used: 0 },
    { name: 'daily_mb', limit: 1_000, own: false, used: 0 },
    { name: 'failed_slot_seconds', limit: null, own: false, used: 0 },
  ]);
  await json('settings', 'set', '--name', 'failed_slot_seconds_per_hour', '--value', '900');
  expect((await json('limit', 'show', '--account', 'acct-none')).answer.error.code).toBe('not_found');
});

test('rates are set for all, or for one account, from the next submit on', async () => {
  const { answer } = await json('account', 'create', '--name', 'Rates');
  const set = async (...flags: string[]) =>
    (await json('rates', 'set', '--capability', 'face-swap-image', ...flags)).answer;
  expect(await set('--rate-usd', '0.05', '--minimum-usd', '0.02')).toEqual({
    capability: 'face-swap-image',
    account_id: null,
    version: expect.any(Number),
    unit: 'image',
    rate_usd: 0.05,
    rates: [{ when: {}, rate_usd: 0.05 }],
    minimum_usd: 0.02,
    hold_units: 1.5,
    preview_usd: 0,
    before: { rates: [{ when: {}, rate_usd: 0.04 }], minimum_usd: 0.04, hold_units: 1.5, preview_usd: 0 },
  });
  expect(await set('--account', answer.account_id, '--rate-usd', '0.01', '--minimum-usd', '0')).toMatchObject(
    {
      account_id: answer.account_id,
      rate_usd: 0.01,
    },
  );
  const { control, ask } = system.client;
  const rate = async (key?: string) => {
    const card = await ask(control.getPricing.bind(control), { caller: key ? callerOf(key) : undefined });
    return card.capabilities.find(({ capability }) => capability === 'face-swap-image')?.rates;
  };
  expect(await rate()).toEqual([{ when: {}, rateMicros: 50_000n }]);
  expect(await rate(answer.api_key)).toEqual([{ when: {}, rateMicros: 10_000n }]);
  expect((await set('--rate-usd', '-1', '--minimum-usd', '0')).error.code).toBe('invalid_input');
  expect((await set('--account', 'acct-none', '--rate-usd', '1', '--minimum-usd', '0')).error.code).toBe(
    'not_found',
  );
});

test('usage is listed and summed as its owner reads it', async () => {
  const { answer } = await json('account', 'create', '--name', 'Usage', '--balance-usd', '1');
  const own = ['--account', answer.account_id, '--rate-usd', '0.07', '--minimum-usd', '0'];
  await json('rates', 'set', '--capability', 'face-swap-image', ...own);
  const caller = callerOf(answer.api_key);
  const { fileKey } = await upload(system, caller);
  const { control, ask } = system.client;
  const submit = () => ask(control.submitJob.bind(control), photoSwap(caller, fileKey));
  const [first, second] = [await submit(), await submit()];
  const ended = ({ status }: { status: string }) => status === 'failed' || status === 'succeeded';
  await succeed(system, await untilRenderJob(system, first.id));
  await untilJob(system, caller, first.id, ended);
  await ask(control.cancelJob.bind(control), { caller, jobId: second.id });
  await untilJob(system, caller, second.id, ended);

  const usage = async (...flags: string[]) => (await json('usage', ...flags)).answer;
  const entry = { endpoint: 'face-swap-image', feature: 'photo_swap', created_at: expect.any(String) };
  const list = await usage('list', '--account', answer.account_id);
  expect(list).toEqual([
    { id: second.id, ...entry, status: 'failed', charged_usd: 0, reason: 'cancelled' },
    { id: first.id, ...entry, status: 'succeeded', charged_usd: 0.07, reason: null },
  ]);
  const before = await usage(
    'list',
    '--account',
    answer.account_id,
    '--to',
    list[0].created_at,
    '--limit',
    '5',
  );
  expect(before).toEqual([list[1]]);
  const summary = { total_calls: 2, succeeded: 1, failed: 1, in_flight: 0, total_spent_usd: 0.07 };
  expect(await usage('summary', '--account', answer.account_id)).toEqual({
    ...summary,
    per_feature: [{ feature: 'photo_swap', calls: 2, spend_usd: 0.07 }],
  });
  expect(await usage('summary', '--account', answer.account_id, '--to', '2020-01-01')).toMatchObject({
    total_calls: 0,
    per_feature: [],
  });
  expect((await usage('list', '--account', 'acct-none')).error.code).toBe('not_found');
  expect((await usage('list', '--account', answer.account_id, '--limit', '501')).error.code).toBe(
    'invalid_input',
  );
  expect((await usage('list', '--account', answer.account_id, '--from', 'soon')).error.code).toBe('usage');
});

test('the signing secret is made once, shown again, and replaced on demand', async () => {
  const { answer } = await json('account', 'create', '--name', 'Hook');
  const ask = async (verb: string, ...more: string[]) =>
    (await json('secret', verb, '--account', answer.account_id, ...more)).answer;
  expect((await ask('promote')).error.code).toBe('invalid_input');
  const { secret } = await ask('show');
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  expect(await ask('show')).toEqual({ secret, next: null });
  const { next } = await ask('rotate');
  expect(next).not.toBe(secret);
  expect(await ask('rotate')).toEqual({ next });
  expect(await ask('show')).toEqual({ secret, next });
  expect(await ask('promote')).toEqual({ secret: next });
  expect(await ask('show')).toEqual({ secret: next, next: null });
  expect((await ask('promote')).error.code).toBe('invalid_input');
  await ask('rotate');
  const { secret: replaced } = await ask('rotate', '--now');
  expect(replaced).not.toBe(next);
  expect(await ask('show')).toEqual({ secret: replaced, next: null });
  expect((await json('delivery', 'list', '--account', answer.account_id)).answer).toEqual([]);
  const unknown = await json('delivery', 'replay', '--delivery', 'dlv-none');
  expect(unknown).toMatchObject({ code: 1, answer: { error: { code: 'not_found' } } });
});
