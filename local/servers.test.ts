import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { natsOptions } from '@semblance/common/nats-url';
import { createGuard, type Guard } from '@semblance/common/process/guard';
import { startNats, startPostgres } from '@semblance/testkit/servers/start';
import { connect } from 'nats';
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { natsUrl } from './nats.ts';
import { createDatabase } from './postgres.ts';
import { identify } from './process/identity.ts';
import { resolveTools } from './toolchain/toolchain.ts';

/** These tests run the stack's servers, as durable as the stack has them, and treat them as the stack does. */
let folder: string;
let guard: Guard;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'semblance-servers-'));
  guard = createGuard();
});
afterAll(async () => {
  await guard.close();
  rmSync(folder, { recursive: true, force: true });
});
const gone = (pid: number) => vi.waitFor(() => expect(identify(pid)).toBeUndefined(), 30_000);

async function query(url: string, statement: string) {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  try {
    return await sql.unsafe(statement);
  } finally {
    await sql.end();
  }
}

describe('PostgreSQL', { timeout: 180_000 }, () => {
  it('keeps what was committed through kill -9, asks for its password, and writes to disk before it says so', async () => {
    const dataDir = join(folder, 'postgres');
    const first = await startPostgres({ dataDir, guard });
    expect(await query(first.url, 'show fsync')).toEqual([{ fsync: 'on' }]);
    expect(await query(first.url, 'show synchronous_commit')).toEqual([{ synchronous_commit: 'on' }]);
    expect(await query(first.url, 'show data_checksums')).toEqual([{ data_checksums: 'on' }]);
    const url = await createDatabase(first.url, 'books');
    expect(await createDatabase(first.url, 'books')).toBe(url);
    await query(url, 'create table t (v int); insert into t select generate_series(1, 1000)');
    process.kill(first.pid, 'SIGKILL');
    await gone(first.pid);

    const second = await startPostgres({ dataDir, port: first.port, guard });
    expect(second.url).toBe(first.url);
    expect(await query(url, 'select sum(v)::int as sum from t')).toEqual([{ sum: 500_500 }]);
    const wrong = new URL(url);
    wrong.password = 'guess';
    await expect(query(wrong.href, 'select 1')).rejects.toMatchObject({ code: '28P01' });
    expect(statSync(join(dataDir, 'password')).mode & 0o777).toBe(0o600);
    await second.stop();
    expect(identify(second.pid)).toBeUndefined();

    // The pid in postmaster.pid belongs to another process by now, as after a reboot.
    writeFileSync(
      join(dataDir, 'data/postmaster.pid'),
      `${process.pid}\n${join(dataDir, 'data')}\n1\n${first.port}\n\n\n`,
    );
    const third = await startPostgres({ dataDir, port: first.port, guard });
    expect(await query(url, 'select count(*)::int as n from t')).toEqual([{ n: 1_000 }]);

    // The former server still runs although everything that should have ended it is gone.
    const fourth = await startPostgres({ dataDir, guard });
    await gone(third.pid);
    expect(await query(fourth.url, 'select 1 as one')).toEqual([{ one: 1 }]);
    await fourth.stop();
  });

  it('is made anew when its first start was cut short', async () => {
    const dataDir = join(folder, 'interrupted');
    mkdirSync(join(dataDir, 'data.unfinished/base'), { recursive: true });
    mkdirSync(join(dataDir, 'data/half'), { recursive: true });
    const server = await startPostgres({ dataDir, durable: false, guard });
    expect(await query(server.url, 'select 1 as one')).toEqual([{ one: 1 }]);
    await server.stop();
  });

  it('says in its own words why it does not start', async () => {
    const dataDir = join(folder, 'postgres');
    const version = join(dataDir, 'data/PG_VERSION');
    writeFileSync(version, '9.6\n');
    const started = startPostgres({ dataDir, guard });
    await expect(started).rejects.toThrow(/postgres ended at start[\s\S]*database files are incompatible/);
    writeFileSync(version, '18\n');
  });
});

describe('nats-server', { timeout: 90_000 }, () => {
  it('makes its password once, whole, for its owner alone, and takes no empty one', async () => {
    const dir = join(folder, 'nats-password');
    const first = await natsUrl(dir, 4222);
    expect(first).toMatch(/^nats:\/\/semblance:p[0-9a-f]{48}@127\.0\.0\.1:4222$/);
    expect(await natsUrl(dir, 4222)).toBe(first);
    const file = join(dir, 'password');
    expect(statSync(file).mode & 0o777).toBe(0o600);
    writeFileSync(file, '');
    const second = await natsUrl(dir, 4222);
    expect(second).toMatch(/:p[0-9a-f]{48}@/);
    expect(second).not.toBe(first);
    expect(readdirSync(dir)).toEqual(['password']);
  });

  it('keeps what it acknowledged through kill -9, and lets nobody in without its password', async () => {
    const { 'nats-server': binary } = await resolveTools(['nats-server']);
    const dir = join(folder, 'nats');
    const first = await startNats({ binary, dir, guard });
    const client = await connect(natsOptions(first.url));
    const manager = await client.jetstreamManager();
    await manager.streams.add({ name: 'EVENTS', subjects: ['events.>'] });
    for (let i = 0; i < 50; i++) await client.jetstream().publish('events.x', `${i}`);
    process.kill(first.pid, 'SIGKILL');
    await client.close().catch(() => {});
    await gone(first.pid);

    const second = await startNats({ binary, dir, port: first.port, guard });
    expect(second.url).toBe(first.url);
    const again = await connect(natsOptions(second.url));
    const info = await (await again.jetstreamManager()).streams.info('EVENTS');
    expect(info.state.messages).toBe(50);
    await again.close();
    await expect(connect({ servers: `127.0.0.1:${first.port}` })).rejects.toThrow(/authorization/i);
    await second.stop();
    expect(identify(second.pid)).toBeUndefined();
  });
});
