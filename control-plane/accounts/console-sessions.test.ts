import { createHash } from 'node:crypto';
import { Metadata } from '@grpc/grpc-js';
import type { Caller } from '@semblance/proto/semblance/control/v1/control';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createConsoleCalls } from '../rpc/console-calls.ts';
import { SqlText } from '../storage/sql.ts';
import { revokeKey, setKey } from './accounts.ts';
import { MAX_SESSIONS, removeEndedSessions } from './console-sessions.ts';
import { createGate } from './gate.ts';

let db: TestDatabase;
let account: Awaited<ReturnType<TestDatabase['account']>>;
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());
beforeEach(async () => {
  account = await db.account();
});

const context = () => ({ trailers: new Metadata(), requestId: 'req-1' }) as never;
const calls = () => createConsoleCalls({ database: db.database, gate: createGate(db.database) });
const sha256 = (text: string) => createHash('sha256').update(text).digest();

/** Opens a session; returns its id and the caller that its cookie makes. */
async function opened(caller: object = account.caller, agent = 'Firefox') {
  const by = { ...account.caller, scope: 'account', address: '192.0.2.7', ...caller };
  const { session, token } = await calls().openConsoleSession({ caller: by, agent }, context());
  const keySha256 = Buffer.alloc(0);
  return {
    id: session?.sessionId ?? '',
    session,
    caller: { keySha256, sessionSha256: sha256(token), scope: 'read', address: '192.0.2.7' },
  };
}
type Opened = Caller;

/** Returns the code of each way to judge a call, by a gate that remembers nothing, or the key that it acts as. */
async function judged(caller: Opened): Promise<string> {
  const code = ({ code }: { code: string }) => String(code);
  const gate = createGate(db.database);
  const admitted = await gate.admit(caller, new Metadata()).then(({ keyId }) => keyId, code);
  const checked = await gate.check(caller).then(() => 'ok', code);
  if (checked !== 'ok') expect(checked).toBe(admitted);
  return admitted;
}

describe('a session of the console', () => {
  test('acts as its key, and counts in its limit', async () => {
    const { caller, session } = await opened();
    expect(session).toMatchObject({ keyId: account.keyId, address: '192.0.2.7', agent: 'Firefox' });
    expect(await judged(caller)).toBe(account.keyId);
    await db.sql`update api_keys set per_minute = 1 where id = ${account.keyId}`;
    expect(await judged(caller)).toBe('rate_limited');
  });

  test('is stored without its token, and the token is no key, nor the key a token', async () => {
    const { caller } = await opened();
    expect(await judged({ ...caller, keySha256: caller.sessionSha256, sessionSha256: undefined })).toBe(
      'unauthorized',
    );
    expect(await judged({ ...caller, sessionSha256: account.caller.keySha256 })).toBe('unauthorized');
    for (const sessionSha256 of [Buffer.alloc(0), Buffer.alloc(31), Buffer.alloc(32)])
      expect(await judged({ ...caller, sessionSha256 })).toBe('unauthorized');
  });

  test('opens no other, so that it cannot outlive its end', async () => {
    const { caller } = await opened();
    const again = calls().openConsoleSession({ caller: { ...caller, scope: 'account' } }, context());
    await expect(again).rejects.toMatchObject({ code: 'unauthorized' });
  });

  test('is opened only by a key with the scope of the account, and has no more scopes than that', async () => {
    const { caller } = await opened();
    await setKey(db.sql, account.keyId, { scopes: ['read'] });
    await expect(opened()).rejects.toMatchObject({ code: 'forbidden' });
    expect(await judged({ ...caller, scope: 'account' })).toBe('forbidden');
    expect(await judged(caller)).toBe(account.keyId);
  });

  test('is bound to the addresses, the end and the revocation of its key', async () => {
    const { caller } = await opened();
    await setKey(db.sql, account.keyId, { scopes: [], allowedAddresses: { ranges: ['192.0.2.0/24'] } });
    expect(await judged(caller)).toBe(account.keyId);
    expect(await judged({ ...caller, address: '198.51.100.1' })).toBe('unauthorized');
    await db.sql`update api_keys set expires_at = now() where id = ${account.keyId}`;
    expect(await judged(caller)).toBe('unauthorized');
    await db.sql`update api_keys set expires_at = null where id = ${account.keyId}`;
    expect(await judged(caller)).toBe(account.keyId);
    await revokeKey(db.sql, account.keyId);
    expect(await judged(caller)).toBe('unauthorized');
    await removeEndedSessions(db.sql);
    expect(await db.sql`select 1 from console_sessions where key_id = ${account.keyId}`).toHaveLength(0);
  });

  test.each([
    ['after its longest time', `expires_at = now()`],
    ['when nobody used it for an hour', `used_at = now() - interval '61 minutes'`],
  ])('ends %s, and is removed', async (_when, change) => {
    const { caller, id } = await opened();
    await db.sql`update console_sessions set ${new SqlText(change)} where id = ${id}`;
    expect(await judged(caller)).toBe('unauthorized');
    await removeEndedSessions(db.sql);
    expect(await db.sql`select 1 from console_sessions where id = ${id}`).toHaveLength(0);
  });

  test('lives on while it is used, and each use is noted once a minute', async () => {
    const { caller, id } = await opened();
    const used = async () =>
      (await db.sql<{ used: Date }[]>`select used_at as used from console_sessions where id = ${id}`)[0]
        ?.used;
    const first = await used();
    await judged(caller);
    expect(await used()).toEqual(first);
    await db.sql`update console_sessions set used_at = now() - interval '59 minutes' where id = ${id}`;
    expect(await judged(caller)).toBe(account.keyId);
    expect(Date.now() - Number(await used())).toBeLessThan(30_000);
  });
});

describe('sessions of an account', () => {
  test('are listed and ended by it alone, and its audit says so', async () => {
    const one = await opened();
    const two = await opened();
    const stranger = await db.account();
    const list = (caller: object) =>
      calls().listConsoleSessions({ caller: { ...account.caller, scope: 'account', ...caller } }, context());
    const { sessions } = await list(one.caller);
    expect(sessions.map(({ sessionId, current }) => [sessionId, current])).toEqual([
      [two.id, false],
      [one.id, true],
    ]);
    expect((await list(stranger.caller)).sessions).toEqual([]);
    const end = (sessionId: string, caller: object = account.caller) =>
      calls().endConsoleSession(
        { caller: { ...account.caller, scope: 'account', ...caller }, sessionId },
        context(),
      );
    await expect(end(one.id, stranger.caller)).rejects.toMatchObject({ code: 'not_found' });
    await expect(end('current')).rejects.toMatchObject({ code: 'not_found' });
    await expect(end('con-\u0000')).rejects.toMatchObject({ code: 'not_found' });
    expect((await end(two.id, one.caller)).session?.current).toBe(false);
    expect(await judged(two.caller)).toBe('unauthorized');
    expect((await end('current', one.caller)).session?.current).toBe(true);
    await expect(end(one.id)).rejects.toMatchObject({ code: 'not_found' });
    const audit = await db.sql`
      select action, subject, actor from audit where account_id = ${account.accountId} order by seq`;
    expect(audit.map((row) => [row.action, row.subject, row.actor])).toEqual([
      ['OpenConsoleSession', one.id, account.keyId],
      ['OpenConsoleSession', two.id, account.keyId],
      ['EndConsoleSession', two.id, account.keyId],
      ['EndConsoleSession', one.id, account.keyId],
    ]);
  });

  test('of a key are at most ten, also when many are opened at once: the longest unused ends', async () => {
    const first = await opened();
    await db.sql`update console_sessions set used_at = now() - interval '5 minutes' where id = ${first.id}`;
    await Promise.all(Array.from({ length: MAX_SESSIONS + 3 }, () => opened()));
    const [{ count } = { count: 0 }] = await db.sql<{ count: number }[]>`
      select count(*)::int from console_sessions where key_id = ${account.keyId}`;
    expect(count).toBe(MAX_SESSIONS);
    expect(await judged(first.caller)).toBe('unauthorized');
  });

  test('a browser may say anything of itself', async () => {
    for (const agent of ['x'.repeat(5_000), '\u0000', '\ud800'])
      expect((await opened({}, agent)).session?.agent?.length ?? 0).toBeLessThanOrEqual(300);
  });
});
