import { GPUAGENT_RESOURCE } from '@semblance/crds/gen/gpuagents';
import { admin, json, system } from '@semblance/testkit/control-plane/admin';
import { callerOf, untilTrue } from '@semblance/testkit/control-plane/control-plane';
import { openSession } from '@semblance/testkit/control-plane/sessions';
import { expect, test } from 'vitest';
import { COMMANDS } from './commands.ts';

const make = async (name: string, balance = '10') =>
  (await json('account', 'create', '--name', name, '--balance-usd', balance)).answer;

test('a repeated top-up says that it was one', async () => {
  const { account_id } = await make('Twice', '0');
  const top = ['account', 'topup', '--account', account_id, '--usd', '3', '--reference', 'invoice 1'];
  expect((await json(...top)).answer).toMatchObject({ balance: 3, booked: true });
  const again = (await json(...top)).answer;
  expect(again).toMatchObject({
    balance: 3,
    booked: false,
    note: 'This reference was booked before, so nothing was booked now.',
  });
  expect((await admin(top)).stdout).toContain('nothing was booked now');
});

test('an adjustment is booked once, audited with its reason, and needs an owner', async () => {
  const { account_id } = await make('Adjusted');
  const correct = [
    ...['account', 'adjust', '--account', account_id, '--usd', '-3', '--reference', 'note 7'],
    ...['--reason', 'Twice paid by card'],
  ];
  const booked = (await json(...correct)).answer;
  expect(booked).toEqual({ account_id, kind: 'correction', usd: -3, balance: 7, booked: true });
  expect((await json(...correct)).answer).toMatchObject({ balance: 7, booked: false });
  expect((await json('account', 'show', '--account', account_id)).answer).toMatchObject({
    balance: 7,
    ledger_ok: true,
  });
  const [again, first] = (await json('audit', 'list', '--account', account_id)).answer;
  expect(first).toMatchObject({
    action: 'AdjustAccount',
    before: { balance_usd: 10 },
    after: {
      ...{ balance_usd: 7, kind: 'correction', usd: -3, reference: 'note 7' },
      ...{ reason: 'Twice paid by card', booked: true },
    },
  });
  expect(again.after.booked).toBe(false);
  const deep = [
    'account',
    'adjust',
    '--account',
    account_id,
    '--usd',
    '-7',
    '--reference',
    'r',
    '--reason',
    'x',
  ];
  await openSession(system.database.sql, account_id);
  expect((await json(...deep)).answer.error.code).toBe('invalid_input');
  expect((await json(...deep, '--into-debt')).answer.balance).toBe(0);
  expect((await json(...deep.slice(0, -2))).answer.error.code).toBe('usage');
});

test('limits are shown with what is used of them and whose they are', async () => {
  const { account_id } = await make('Limits shown');
  await openSession(system.database.sql, account_id);
  await json('limit', 'set', '--account', account_id, '--jobs-in-flight', '7');
  const { answer } = await json('limit', 'show', '--account', account_id);
  expect(answer).toEqual(
    expect.arrayContaining([
      { name: 'jobs_in_flight', limit: 7, own: true, used: 0 },
      { name: 'live_sessions', limit: 10, own: false, used: 1 },
    ]),
  );
  expect((await json('limit', 'show', '--account', 'acct-none')).answer.error.code).toBe('not_found');
});

test('a key has a name, a prefix by which a leaked one is found, and its last use', async () => {
  const { account_id, key_id } = await make('Keys');
  const made = (await json('key', 'create', '--account', account_id, '--name', '=shop')).answer;
  const list = async (...flags: string[]) => (await json('key', 'list', ...flags)).answer;
  const [shop, first] = await list('--account', account_id);
  expect(shop).toMatchObject({ name: '=shop', prefix: made.api_key.slice(0, 14), last_used_at: null });
  expect(first).toMatchObject({ key_id, name: null, prefix: expect.stringMatching(/^sk_live_.{6}$/) });
  // Whoever pastes a whole key sends its beginning alone.
  for (const prefix of [made.api_key, made.api_key.slice(0, 14)])
    expect(await list('--prefix', prefix)).toEqual([shop]);
  expect(await list('--prefix', 'sk_live_------')).toEqual([]);
  expect((await list('--prefix', 'sk_live_')).error.code).toBe('invalid_input');
  expect((await json('key', 'list')).code).toBe(2);
  expect((await json('key', 'create', '--account', account_id, '--name', 'a\nb')).answer.error.code).toBe(
    'invalid_input',
  );

  const { control, ask } = system.client;
  const before = Date.now();
  await ask(control.authorize.bind(control), { caller: callerOf(made.api_key) });
  const [used] = await list('--account', account_id);
  expect(Math.abs(Date.parse(used.last_used_at) - before)).toBeLessThan(60_000);
  const { stdout } = await admin(['key', 'list', '--account', account_id, '--csv']);
  expect(stdout).toContain(",'=shop,");
});

test('capabilities and agents are shown with what they lack', async () => {
  const metadata = { name: 'gpu-7', namespace: system.kubernetes.namespace };
  await system.kube.apply(GPUAGENT_RESOURCE, { metadata, spec: {} });
  const capabilities = [{ name: 'lip-sync', slots: 1 }];
  const status = {
    ...{ slots: 4, slotsUsed: 1, node: 'n1', engineNames: 'builtin' },
    engines: [{ name: 'builtin', version: '1', capabilities }],
    conditions: [
      {
        ...{ type: 'Ready', status: 'False', reason: 'HeartbeatLost', message: 'Its Lease has lapsed.' },
        lastTransitionTime: new Date().toISOString(),
      },
    ],
  };
  await system.kube.apply(GPUAGENT_RESOURCE, { metadata, status } as never, { subresource: 'status' });
  const named = async () =>
    (await json('capability', 'list')).answer.find(({ name }: { name: string }) => name === 'lip-sync');
  await untilTrue(async () => (await named()).enabled, 'lip-sync is offered');
  expect(await named()).toMatchObject({ title: 'Lip Sync', switched_on: true, has_engine: true, agents: 1 });
  await json('capability', 'disable', '--name', 'lip-sync');
  expect(await named()).toMatchObject({ enabled: false, switched_on: false });

  const { answer } = await json('capacity');
  expect(answer).toMatchObject({ agents_ready: 0, slots: 4, slots_used: 1 });
  expect(answer.agents).toEqual([
    {
      ...{
        name: 'gpu-7',
        pool: null,
        node: 'n1',
        ready: false,
        reason: 'HeartbeatLost',
        slots: 4,
        slots_used: 1,
      },
      ...{ live: '', engines: 'builtin', capabilities: 'lip-sync', message: 'Its Lease has lapsed.' },
    },
  ]);
  expect((await admin(['capacity'])).stdout).toMatch(/^slots +4$[\s\S]*^agents\nname +pool/m);
  expect((await admin(['capacity', 'agents', '--csv'])).stdout).toMatch(/^name,pool,.*\ngpu-7,,n1,false,/);
});

test('a month of all accounts is a table, CSV and JSON', async () => {
  const { account_id } = await make('=cmd|calc,"x"', '2');
  const month = new Date().toISOString().slice(0, 7);
  const { answer } = await json('usage', 'summary', '--all', '--month', month);
  const row = answer.find((each: { account_id: string }) => each.account_id === account_id);
  expect(row).toEqual({
    ...{ month, account_id, name: '=cmd|calc,"x"', total_calls: 0, succeeded: 0, failed: 0, in_flight: 0 },
    ...{ spent_usd: 0, refunded_usd: 0, topped_up_usd: 2, corrected_usd: 0, balance_usd: 2 },
  });
  expect((await json('usage', 'summary', '--all')).answer).toHaveLength(answer.length);
  const { stdout } = await admin(['usage', 'summary', '--all', '--csv']);
  expect(stdout).toContain(`${month},${account_id},"'=cmd|calc,""x""",0,0,0,0,0,0,2,0,2`);
  for (const wrong of [
    ['--all', '--account', account_id],
    ['--all', '--from', '2026-01-01'],
    ['--account', account_id, '--month', month],
    [],
  ])
    expect((await json('usage', 'summary', ...wrong)).code, wrong.join(' ')).toBe(2);
  expect((await json('usage', 'summary', '--all', '--month', '2026-13')).answer.error.code).toBe(
    'invalid_input',
  );
});

test('deliveries are found by their state, of one account or of all', async () => {
  const { account_id } = await make('Deliveries');
  const list = async (...flags: string[]) => json('delivery', 'list', ...flags);
  expect((await list('--state', 'abandoned')).answer).toEqual([]);
  expect((await list('--account', account_id, '--state', 'pending')).answer).toEqual([]);
  expect((await list('--state', 'lost')).answer.error.code).toBe('invalid_input');
  expect((await list('--account', 'acct-none')).answer.error.code).toBe('not_found');
  expect((await list()).code).toBe(0);
});

test('a list is a table, or CSV with the same columns, and --csv fits nothing else', async () => {
  await make('Listed');
  const table = (await admin(['account', 'list', '--limit', '2'])).stdout.split('\n');
  expect(table[0]).toMatch(/^account_id +name +created_at +balance +holds +reserved +keys$/);
  const csv = (await admin(['account', 'list', '--limit', '2', '--csv'])).stdout.split('\n');
  expect(csv[0]).toBe('account_id,name,created_at,balance,holds,reserved,keys');
  expect(csv).toHaveLength(table.length);
  for (const args of [
    ['account', 'create', '--name', 'x', '--csv'],
    ['account', 'list', '--csv', '--json'],
    ['usage', 'summary', '--account', 'x', '--csv'],
  ])
    expect((await admin(args)).code, args.join(' ')).not.toBe(0);
  const { answer } = await json('account', 'list', '--search', 'x');
  expect(answer.some(({ name }: { name: string }) => name === 'x')).toBe(false);
});

test('every list has columns, and every row of it has them', async () => {
  const { account_id } = await make('Columns');
  await openSession(system.database.sql, account_id);
  await json('token', 'create', '--name', 'columns', '--role', 'read-only');
  const lists = COMMANDS.filter(({ columns }) => columns);
  const named = COMMANDS.filter(({ name }) => / list$/.test(name)).map(({ name }) => name);
  const without = ['capacity list', 'settings list'];
  expect(named.filter((name) => !lists.some((list) => list.name === name))).toEqual(without);
  for (const { name, columns = [], flags } of lists) {
    const needs = flags.some(({ name }) => name === 'account') ? ['--account', account_id] : [];
    const all = name === 'usage summary' ? ['--all'] : needs;
    const { answer, code } = await json(...name.split(' '), ...all);
    expect(code, name).toBe(0);
    // An account's own rates have the first two beside the others, and capabilities with previews the third.
    const always = columns.filter((column) => !['differs', 'public', 'preview_usd'].includes(column));
    for (const row of answer) expect(Object.keys(row), name).toEqual(expect.arrayContaining(always));
  }
});

test('help is about what was asked', async () => {
  const help = async (...args: string[]) => (await admin([...args, '--help'])).stdout;
  expect(await help('account', 'adjust')).toContain('--into-debt:');
  expect(await help('account', 'adjust')).not.toContain('account create');
  expect(await help('key')).toContain('key revoke');
  expect(await help('key')).not.toContain('rates set');
  expect(await help()).toContain('rates set');
});
