import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { admin, json, state, system } from '@semblance/testkit/control-plane/admin';
import { expect, test } from 'vitest';

test('the audit is exported and verified, by the service or by its file alone', async () => {
  for (const name of ['First', 'Second', 'Third', 'Last']) await json('account', 'create', '--name', name);
  const { stdout: lines } = await admin(['audit', 'export']);
  const entries = lines.trimEnd().split('\n');
  const verify = async (...more: string[]) => json('audit', 'verify', ...more);
  const { answer: intact } = await verify();
  expect(intact).toEqual({
    intact: true,
    entries: entries.length,
    seq: entries.length,
    hash: expect.any(String),
  });
  const { stdout: csv } = await admin([
    'audit',
    'export',
    '--format',
    'csv',
    '--after',
    String(entries.length - 1),
  ]);
  expect(csv.trimEnd().split('\n')).toHaveLength(2);
  expect(csv).toContain(intact.hash);

  const file = join(state, 'audit.jsonl');
  const offline = async (text: string, ...more: string[]) => {
    await writeFile(file, text);
    const { code, stdout } = await admin(['audit', 'verify', '--file', file, '--json', ...more], {});
    return { code, answer: JSON.parse(stdout) };
  };
  expect((await offline(lines)).answer).toEqual(intact);
  expect((await offline(entries.slice(2).join('\n'))).answer).toMatchObject({ entries: entries.length - 2 });
  const noted = `${intact.seq}:${intact.hash}`;
  expect((await offline(lines, '--known', noted)).code).toBe(0);
  expect((await verify('--known', noted)).code).toBe(0);
  for (const [text, ...more] of [
    [lines.replace('"name": "Last"', '"name": "Lost"')],
    [entries.filter((_, i) => i !== 2).join('\n')],
    [entries.slice(0, -1).join('\n'), '--known', noted],
    [lines, '--known', `1:${intact.hash}`],
  ] as [string, ...string[]][])
    expect(await offline(text, ...more)).toMatchObject({
      code: 1,
      answer: { error: { code: 'audit_broken' } },
    });
  expect((await offline(lines, '--known', '1')).answer.error.code).toBe('usage');
  expect((await admin(['audit', 'verify', '--file', join(state, 'none')], {})).code).toBe(2);

  const { sql } = system.database;
  await sql`alter table audit disable trigger audit_no_change`;
  await sql`update audit set actor = 'nobody' where seq = 2`;
  await sql`alter table audit enable trigger audit_no_change`;
  expect(await verify()).toMatchObject({
    code: 1,
    answer: { error: { code: 'audit_broken', message: expect.stringContaining('entry 2 was changed') } },
  });
});
