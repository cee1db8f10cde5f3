import { json, system } from '@semblance/testkit/control-plane/admin';
import { callerOf } from '@semblance/testkit/control-plane/control-plane';
import { expect, test } from 'vitest';

type Key = { key_id: string; api_key: string };

const account = async (): Promise<string> =>
  (await json('account', 'create', '--name', 'Keys')).answer.account_id;

test('a key is made with scopes, an end and addresses, shown, and set anew; the audit says from what to what', async () => {
  const id = await account();
  const made = await json(
    ...['key', 'create', '--account', id, '--name', 'ci', '--scope', 'read, submit'],
    ...['--expires', '2031-01-31T09:30:00Z', '--allow', '192.0.2.0/24,2001:db8::1'],
  );
  const key = made.answer as Key;
  const shown = {
    name: 'ci',
    scopes: ['submit', 'read'],
    expires_at: '2031-01-31T09:30:00.000Z',
    allowed_addresses: ['192.0.2.0/24', '2001:db8::1/128'],
  };
  const [listed] = (await json('key', 'list', '--account', id)).answer;
  expect(listed).toMatchObject({ key_id: key.key_id, ...shown });

  const { control, ask } = system.client;
  const call = (address: string, scope: string) =>
    ask(control.authorize.bind(control), { caller: { ...callerOf(key.api_key), address, scope } }).then(
      () => 'ok',
      ({ code }) => code,
    );
  expect(await call('192.0.2.9', 'read')).toBe('ok');
  expect(await call('192.0.2.9', 'account')).toBe('forbidden');
  expect(await call('198.51.100.1', 'read')).toBe('unauthorized');

  const set = await json(
    ...['key', 'set', '--key', key.key_id, '--scope', 'account', '--expires', 'never', '--allow', 'any'],
  );
  const now = { scopes: ['account'], expires_at: null, allowed_addresses: [] };
  expect(set.answer).toMatchObject({ ...now, name: 'ci' });
  expect(await call('198.51.100.1', 'account')).toBe('ok');
  const { answer } = await json('audit', 'list', '--account', id, '--limit', '1');
  const { name: _name, ...before } = shown;
  expect(answer).toMatchObject([{ action: 'SetKey', subject: key.key_id, before, after: now }]);
});

test.each([
  ['no scope', ['--scope', ''], 'usage'],
  ['an unknown scope', ['--scope', 'read,root'], 'invalid_input'],
  ['no address', ['--allow', ','], 'usage'],
  ['no network', ['--allow', '192.0.2.1/24'], 'invalid_input'],
  ['an end that has passed', ['--expires', '2020-01-01'], 'invalid_input'],
  ['nothing to set', [], 'usage'],
])('key set refuses %s, and changes nothing', async (_what, flags, code) => {
  const id = await account();
  const { key_id } = (await json('key', 'create', '--account', id)).answer as Key;
  const refused = await json('key', 'set', '--key', key_id, ...flags);
  expect(refused.code).not.toBe(0);
  expect(refused.answer.error.code).toBe(code);
  const [listed] = (await json('key', 'list', '--account', id)).answer;
  expect(listed).toMatchObject({ scopes: ['submit', 'read', 'sessions', 'account'], expires_at: null });
});

test('key set of a key that is not there is not found', async () => {
  const { answer } = await json('key', 'set', '--key', 'key-none', '--scope', 'read');
  expect(answer.error.code).toBe('not_found');
});

test('caps of keys and accounts are set, shown with what is spent and held, and taken away', async () => {
  const made = await json('account', 'create', '--name', 'Caps', '--balance-usd', '5');
  const id = made.answer.account_id;
  const set = await json('cap', 'set', '--account', id, '--cap-day', '2.5', '--cap-month', '30');
  expect(set.answer).toMatchObject({
    account_id: id,
    caps: [
      { holder: 'account', period: 'day', cap_usd: 2.5, owner_cap_usd: 2.5, spent_usd: 0, left_usd: 2.5 },
      { holder: 'account', period: 'month', cap_usd: 30 },
    ],
  });
  const key = ['--key', made.answer.key_id];
  expect((await json('key', 'set', ...key, '--cap-day', '0.000001')).answer).toMatchObject({
    cap_day_usd: 0.000001,
    cap_month_usd: null,
  });
  expect((await json('cap', 'show', '--account', id)).answer).toMatchObject({
    account_id: id,
    alarm_balance_usd: null,
    balance_is_low: false,
    caps: [
      { holder: 'account', period: 'day', key_id: null },
      { holder: 'account', period: 'month' },
      { holder: 'key', period: 'day', key_id: made.answer.key_id, cap_usd: 0.000001, held_usd: 0 },
      { holder: 'key', period: 'month', cap_usd: null, left_usd: null },
    ],
  });
  const ofKey = (await json('cap', 'show', '--account', id, ...key)).answer;
  expect(Object.keys(ofKey)).toEqual(['account_id', 'caps']);
  expect(ofKey.caps).toHaveLength(2);
  await json('cap', 'set', '--account', id, '--cap-day', 'none', '--alarm-balance', '1000');
  const { answer } = await json('cap', 'show', '--account', id);
  expect(answer).toMatchObject({
    ...{ alarm_balance_usd: 1_000, balance_is_low: true },
    caps: [{ cap_usd: null, left_usd: null }, { cap_usd: 30 }, {}, {}],
  });
  for (const flags of [[], ['--cap-day', '-1'], ['--cap-day', '0.0000001'], ['--cap-month', 'much']])
    expect((await json('cap', 'set', '--account', id, ...flags)).code, String(flags)).toBe(2);
  const [entry] = (await json('audit', 'list', '--account', id, '--limit', '1')).answer;
  expect(entry).toMatchObject({
    action: 'SetCaps',
    before: { cap_day_usd: 2.5 },
    after: { cap_day_usd: null },
  });
});
