import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { isPlainText } from '@semblance/common/plain-text';
import { admin, json, local, state, system } from '@semblance/testkit/control-plane/admin';
import { expect, test } from 'vitest';

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
  // A row of a release that accepted any name.
  await system.database.sql`update accounts set name = ${evil} where id = ${made.account_id}`;
  await system.database.sql`
    insert into audit (actor, action, account_id, subject, after)
    values (${evil}, 'CreateKey', ${made.account_id}, ${evil}, ${system.database.sql.json({ [evil]: evil })}::jsonb)`;
  const prints: { stdout: string; stderr: string }[] = [];
  for (const args of [
    ['account', 'show', '--account', made.account_id],
    ['audit', 'list', '--account', made.account_id],
    ['audit', 'export'],
    ['audit', 'export', '--format', 'csv'],
    ['audit', 'verify'],
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
  expect(JSON.parse(prints[15]?.stdout ?? '')).toMatchObject({ error: { code: 'invalid_input' } });
});
