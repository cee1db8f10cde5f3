import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { isPlainText } from '#common/plain-text.ts';
import { openSession } from '../sessions/testing.ts';
import {
  callerOf,
  photoSwap,
  startTestSystem,
  succeed,
  type TestSystem,
  untilJob,
  untilRenderJob,
  upload,
} from '../testing.ts';
import { runAdmin } from './run.ts';

let system: TestSystem;
let state: string;

beforeAll(async () => {
  system = await startTestSystem();
  state = await mkdtemp(join(tmpdir(), 'semblance-admin-'));
  const control = { control_address: `127.0.0.1:${system.plane.port}` };
  await writeFile(join(state, 'control.json'), JSON.stringify(control));
  await writeFile(join(state, 'stack.json'), JSON.stringify({ admin_token: system.adminToken }));
});
afterAll(async () => {
  await rm(state, { recursive: true });
  await system.close();
});

const local = () => ({ SEMBLANCE_STATE_DIR: state });

async function admin(args: string[], env: NodeJS.ProcessEnv = local()) {
  const written = { stdout: '', stderr: '' };
  const into = (name: 'stdout' | 'stderr') => ({
    write: (text: string) => {
      written[name] += text;
    },
  });
  const code = await runAdmin(args, { env, stdout: into('stdout'), stderr: into('stderr') });
  return { code, ...written };
}

async function json(...args: string[]) {
  const { code, stdout } = await admin([...args, '--json']);
  return { code, answer: JSON.parse(stdout) };
}

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
    per_minute: 1,
    revoked_at: null,
  });
  await expect(authorize()).rejects.toMatchObject({ code: 'rate_limited' });
  expect((await json('key', 'revoke', '--key', key.key_id)).answer.revoked_at).toMatch(/^\d{4}-.*Z$/);
  await expect(authorize()).rejects.toMatchObject({ code: 'unauthorized' });
});

test.each([
  [['account', 'create'], 2, 'usage', 'needs --name'],
  [['account', 'frobnicate'], 2, 'usage', 'There is no command "account frobnicate"'],
  [['account'], 2, 'usage', 'There is no command "account"'],
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
  });
  expect(await set('--live-sessions', '0')).toMatchObject({ jobs_in_flight: 7, live_sessions: 0 });
  expect((await set('--jobs-in-flight', '1000001')).error.code).toBe('invalid_input');
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
    minimum_usd: 0.02,
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
  const show = async (verb: string) =>
    (await json('secret', verb, '--account', answer.account_id)).answer.secret;
  const secret = await show('show');
  expect(secret).toMatch(/^whsec_[\w-]{43}$/);
  expect(await show('show')).toBe(secret);
  const rotated = await show('rotate');
  expect(rotated).not.toBe(secret);
  expect(await show('show')).toBe(rotated);
  expect((await json('delivery', 'list', '--account', answer.account_id)).answer).toEqual([]);
  const unknown = await json('delivery', 'replay', '--delivery', 'dlv-none');
  expect(unknown).toMatchObject({ code: 1, answer: { error: { code: 'not_found' } } });
});

test('without --json it prints text, faults on standard error; alone it tells its usage', async () => {
  const { answer } = await json('account', 'create', '--name', 'Text');
  const shown = await admin(['account', 'show', '--account', answer.account_id]);
  expect(shown.stdout).toMatch(/^account_id {2}acct-.*\nname {8}Text\nbalance {5}0\n/);
  const fault = await admin(['account', 'show']);
  expect(fault).toMatchObject({ code: 2, stdout: '' });
  expect(fault.stderr).toContain('Usage: npm run --silent admin --');
  expect((await admin([])).code).toBe(2);
  expect(await admin(['--help'])).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('account create'),
  });
});

test('a wrong token, a control plane that is away and a stack that is not running are told apart', async () => {
  const show = ['account', 'show', '--account', 'a', '--json'];
  const code = async (env: Record<string, string>) => JSON.parse((await admin(show, env)).stdout).error.code;
  const address = `127.0.0.1:${system.plane.port}`;
  expect(await code({ SEMBLANCE_CONTROL_ADDRESS: address, SEMBLANCE_ADMIN_TOKEN: 'wrong' })).toBe(
    'unauthorized',
  );
  expect(await code({ SEMBLANCE_CONTROL_ADDRESS: '127.0.0.1:1', SEMBLANCE_ADMIN_TOKEN: 'x' })).toBe(
    'unreachable',
  );
  expect(await code({ SEMBLANCE_STATE_DIR: join(state, 'none') })).toBe('not_running');
});

test('it runs as a command of its own', async () => {
  const show = [
    '--no-warnings',
    join(import.meta.dirname, 'cli.ts'),
    'account',
    'show',
    '--account',
    'acct-none',
    '--json',
  ];
  const run = promisify(execFile)(process.execPath, show, { env: { ...process.env, ...local() } });
  const failed = await run.catch((error: { code: number; stdout: string; stderr: string }) => error);
  expect(failed).toMatchObject({ code: 1, stderr: '' });
  expect(JSON.parse(failed.stdout).error.code).toBe('not_found');
});

test('nothing that it prints can move the cursor, whatever is stored or asked for', async () => {
  const { answer: made } = await json('account', 'create', '--name', 'Eve');
  const evil = 'x\u001b[2J\u009b1A\u0007\r\u202e\ny';
  // Rows of a release that took any name.
  await system.database.sql`update accounts set name = ${evil} where id = ${made.account_id}`;
  await system.database.sql`
    insert into audit (actor, action, account_id, subject, after)
    values (${evil}, 'CreateKey', ${made.account_id}, ${evil}, ${system.database.sql.json({ [evil]: evil })}::jsonb)`;
  const prints: { stdout: string; stderr: string }[] = [];
  for (const args of [
    ['account', 'show', '--account', made.account_id],
    ['audit', 'list', '--account', made.account_id],
    ['account', 'show', '--account', evil],
    ['account', 'create', '--name', evil],
    ['key', 'create', '--account', made.account_id, '--actor', evil],
    ['key', 'limit', '--key', 'key-none', '--per-minute', evil],
    ['key', evil],
  ])
    prints.push(await admin(args), await admin([...args, '--json']));
  for (const { stdout, stderr } of prints)
    for (const text of [stdout, stderr])
      expect(text.split('\n').every(isPlainText), JSON.stringify(text)).toBe(true);
  expect(prints[0]?.stdout).toContain('x\\u001b[2J\\u009b1A\\u0007\\u000d\\u202e\\u000ay');
  expect(JSON.parse(prints[1]?.stdout ?? '').name, 'the same text, for a program').toBe(evil);
  expect(JSON.parse(prints[9]?.stdout ?? '')).toMatchObject({ error: { code: 'invalid_input' } });
});
