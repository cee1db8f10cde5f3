import { createHash } from 'node:crypto';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { AdminIdentity } from '../admin-tokens/gate.ts';
import { migrate, readMigrations } from '../storage/migrate.ts';
import { exportAudit, writeAudit } from './audit.ts';
import { type BrokenChainError, CSV_HEAD, checkLine, csvOf, type Link, START } from './chain.ts';

const ACTOR: AdminIdentity = { name: 'ada', role: 'support', tokenId: 'adm-1' };

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

const write = (subject: string, facts: Record<string, unknown> = {}, at = db) =>
  at.sql.begin((tx) =>
    writeAudit(
      tx,
      { action: 'LimitKey', actor: ACTOR, stated: 'Ada Löv', requestId: 'r' },
      { subject, before: facts, after: facts },
    ),
  );

async function exported(at = db, after = 0n): Promise<string[]> {
  const lines: string[] = [];
  for (;;) {
    const page = await exportAudit(at.sql, after + BigInt(lines.length));
    if (page.lines.length === 0) return lines;
    lines.push(...page.lines);
  }
}

/** Checks lines; returns the place of the last. */
const check = (lines: readonly string[], begins: 'at the first' | 'anywhere' = 'at the first') =>
  lines.reduce<Link | undefined>(
    (before, line) => checkLine(line, before),
    begins === 'anywhere' ? undefined : START,
  );

function broken(lines: readonly string[]): string {
  try {
    check(lines);
  } catch (error) {
    return (error as BrokenChainError).message;
  }
  return 'intact';
}

test('each line is a JSON object with the hash of itself and of the line before, which sha256sum can check', async () => {
  const before = (await exported()).length;
  await write('key-1', {
    per_minute: 7,
    name: 'é"\\u009b\\',
    list: [1.5, null, 1e21, 0.1],
    nested: { b: 1, a: 2 },
  });
  const lines = await exported();
  expect(lines).toHaveLength(before + 1);
  const line = lines.at(-1) ?? '';
  const { hash, ...entry } = JSON.parse(line);
  expect(entry).toMatchObject({
    seq: before + 1,
    at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/),
    actor: 'ada',
    role: 'support',
    token_id: 'adm-1',
    stated: 'Ada Löv',
    action: 'LimitKey',
    account_id: null,
    subject: 'key-1',
    after: { per_minute: 7, name: 'é"\\u009b\\', list: [1.5, null, 1e21, 0.1], nested: { a: 2, b: 1 } },
    request_id: 'r',
  });
  const content = line.replace(/, "hash" : "[0-9a-f]{64}"\}$/, '}');
  expect(createHash('sha256').update(content).digest('hex')).toBe(hash);
  expect(check(lines)).toEqual({ seq: before + 1, hash });
});

test('changes at once have their places without gaps, those that are undone have none', async () => {
  const before = (await exported()).length;
  await Promise.allSettled(
    Array.from({ length: 60 }, (_, i) =>
      db.sql.begin(async (tx) => {
        const call = { action: 'SetLimits', actor: ACTOR, stated: 'x', requestId: undefined };
        await writeAudit(tx, call, { subject: `key-${i}` });
        if (i % 3 === 0) throw new Error('undone');
      }),
    ),
  );
  const lines = await exported();
  expect(check(lines)).toMatchObject({ seq: before + 40 });
  const head = await exportAudit(db.sql, 0n);
  expect(check(lines)).toEqual({ seq: Number(head.headSeq), hash: head.headHash });
});

test('more entries than one answer takes are one chain', async () => {
  for (let i = 0; i < 5; i++)
    await db.sql`
      insert into audit (actor, role, action, subject) select 'ada', 'owner', 'X', n::text from generate_series(1, 100) n`;
  const lines = await exported();
  expect(lines.length).toBeGreaterThan(500);
  expect(check(lines)?.seq).toBe(lines.length);
  expect(check(lines.slice(300), 'anywhere')?.seq).toBe(lines.length);
});

describe('whoever owns the tables cannot hide', () => {
  const tampered = async (change: (at: TestDatabase) => Promise<unknown>) => {
    const own = await testDatabase();
    try {
      for (let i = 1; i <= 6; i++) await write(`key-${i}`, { n: i }, own);
      await own.sql`alter table audit disable trigger user`;
      await change(own);
      const { headSeq, headHash } = await exportAudit(own.sql, 0n);
      const lines = await exported(own);
      const fault = broken(lines);
      if (fault !== 'intact') return fault;
      const end = check(lines);
      return end?.seq === Number(headSeq) && end.hash === headHash ? 'intact' : 'another end';
    } finally {
      await own.close();
    }
  };

  test.each<[string, (at: TestDatabase) => Promise<unknown>, string]>([
    ['nothing', async () => {}, 'intact'],
    [
      'a change of a value',
      ({ sql }) => sql`update audit set after = '{"n": 9}' where seq = 3`,
      'entry 3 was changed',
    ],
    ['another actor', ({ sql }) => sql`update audit set actor = 'eve' where seq = 3`, 'entry 3 was changed'],
    [
      'another time',
      ({ sql }) => sql`update audit set at = at - interval '1 microsecond' where seq = 6`,
      'entry 6 was',
    ],
    [
      'an entry removed',
      ({ sql }) => sql`delete from audit where seq = 3`,
      'entry 4 does not follow entry 2',
    ],
    [
      'the first entry removed',
      ({ sql }) => sql`delete from audit where seq = 1`,
      'entry 2 does not follow entry 0',
    ],
    ['the last entry removed', ({ sql }) => sql`delete from audit where seq = 6`, 'another end'],
    [
      'an entry put in another place',
      ({ sql }) => sql`update audit set seq = case seq when 3 then 100 else seq end`,
      'entry 4 does not follow entry 2',
    ],
    [
      'an entry written anew with its own hash',
      async ({ sql }) => {
        await sql`update audit set after = '{"n": 9}' where seq = 3`;
        await sql`update audit a set hash = sha256(convert_to(audit_line(a), 'UTF8')) where seq = 3`;
      },
      'entry 4 does not follow entry 3',
    ],
  ])('%s', async (_, change, found) => {
    expect(await tampered(change)).toContain(found);
  });
});

test('what is no export is told', () => {
  for (const line of [
    '',
    '{}',
    'null',
    '[1]',
    '{"seq" : 1, "hash" : "00"}',
    `{"seq" : "1", "hash" : "${'0'.repeat(64)}"}`,
  ])
    expect(broken([line])).toBe('what follows entry 0 is no entry');
});

test('entries of a former release are chained with the migration, and those that it still writes', async () => {
  const old = await testDatabase(12);
  try {
    const byOldRelease = (subject: string) => old.sql`
      insert into audit (actor, action, subject, after) values ('Ada Löv', 'LimitKey', ${subject}, '{"a": 1.50}')`;
    for (let i = 0; i < 3; i++) await byOldRelease(`key-${i}`);
    await migrate(old.url, await readMigrations());
    await byOldRelease('key-3');
    const lines = await exported(old);
    expect(check(lines)?.seq).toBe(4);
    expect(
      lines
        .map((line) => JSON.parse(line))
        .map(({ actor, role, stated, subject }) => [actor, role, stated, subject]),
    ).toEqual(Array.from({ length: 4 }, (_, i) => ['bootstrap', 'owner', 'Ada Löv', `key-${i}`]));
    await expect(old.sql`update audit set actor = 'x'`).rejects.toThrow('never changed');
  } finally {
    await old.close();
  }
});

test('CSV quotes what it must, and no spreadsheet takes a value for a formula', () => {
  const line = JSON.stringify({
    seq: 1,
    actor: 'ada',
    stated: '=HYPERLINK("http://x")',
    subject: '+1',
    before: null,
    after: { a: 'b,c' },
  });
  expect(CSV_HEAD.split(',')).toHaveLength(14);
  expect(csvOf(line)).toBe(`1,,ada,,,"'=HYPERLINK(""http://x"")",,,'+1,,"{""a"":""b,c""}",,,`);
});
