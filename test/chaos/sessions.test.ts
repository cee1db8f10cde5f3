import { createServer, type Socket, connect as tcp } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '@semblance/testkit/stack/eventually';
import {
  connectVoice,
  liveOffered,
  type OpenedVoice,
  openVoice,
  settledSession,
  type VoiceClient,
} from '@semblance/testkit/stack/live-client';
import { type Account, type Stack, stackAt } from '@semblance/testkit/stack/stack';
import { SERVICE_NAMES, type StackProcess, startStackProcess } from '@semblance/testkit/stack/stack-process';
import { watchGateway } from '@semblance/testkit/stack/streamed';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

/**
 * Live sessions while parts of the system die, and their charges. A minute costs 60 USD, so that a charge tells the
 * milliseconds.
 */
let running: StackProcess;
let stack: Stack;
let account: Account;

/** Tolerance of a bound, because a charge is rounded to the millisecond, in ms. */
const ROUNDING_MS = 2;
/** Longest delay from the gateway to the arrival of a message here, in ms, on a machine that keeps up. */
const SEEN_LATE_MS = 250;
/** Interval of the meter's reports, in ms; the gateway loses what it sent since the last one. */
const REPORT_MS = 2_000;

beforeAll(async () => {
  // Live swaps are not tested here, and warming up for them takes seconds at each start of the agent.
  running = await startStackProcess({ env: { SEMBLANCE_LIVE_VIDEO_SLOTS: '0' } });
  stack = stackAt(running.file);
  await stack.admin('rates', 'set', { capability: 'voice', 'rate-usd': 60, 'minimum-usd': 0 });
  await liveOffered(stack, ['voice']);
  account = await stack.newAccount({ balanceUsd: 100_000 });
}, 300_000);
afterAll(() => running?.close(), 200_000);

const clients = new Set<VoiceClient>();
const pumps = new AbortController();
afterAll(() => {
  pumps.abort();
  for (const client of clients) client.vanish();
});

/** Makes an account of its own, so that a test that runs beside others can check all that it holds. */
const ownAccount = (): Promise<Account> => stack.newAccount({ balanceUsd: 1_000 });

/** Opens a session that streams; resolves when sound comes back. */
async function streaming(of: Account = account, through?: string): Promise<VoiceClient> {
  const client = await eventually(
    'a session to be opened',
    () => connectVoice(of.api, { duration_minutes: 5 }, { through }),
    { withinMs: 60_000, everyMs: 500 },
  );
  clients.add(client);
  void client.stream(pumps.signal);
  await eventually('sound to come back', () => client.received.length > 0 || undefined, { everyMs: 5 });
  return client;
}

interface Charge {
  readonly status: string;
  readonly reason: string | null;
  /** Charged time in ms. */
  readonly ms: number;
}

/** Returns the charge of a session once it is settled. */
async function settled(id: string, of: Account = account): Promise<Charge> {
  const { status, reason, chargedUsd } = await settledSession(of.api, id);
  return { status, reason, ms: Math.round(chargedUsd * 1_000) };
}

function kill(service: string): { back: Promise<unknown> } {
  const pid = stack.read().services[service] as number;
  process.kill(pid, 'SIGKILL');
  const back = eventually(
    `${service} to be started again`,
    () => (stack.read().services[service] === pid ? undefined : true),
    { withinMs: 100_000, everyMs: 50 },
  );
  return { back };
}

/**
 * Checks that the charge covers the time from the first to the last message that came back, and at most the granted
 * time.
 */
function expectCharged({ ms }: Charge, { streamed: { least, most }, maxDurationSec }: VoiceClient): void {
  const due = Math.min(least, maxDurationSec * 1_000);
  expect(ms, `${least} to ${most} ms were streamed`).toBeGreaterThanOrEqual(due - ROUNDING_MS);
  expect(ms, `${least} to ${most} ms were streamed`).toBeLessThanOrEqual(most + ROUNDING_MS);
}

/** Checks that no money is held and that the books are right. */
async function expectCleanBooks(of: Account = account): Promise<void> {
  const shown = await eventually('the control plane to answer', () =>
    stack.admin('account', 'show', { account: of.accountId }),
  );
  expect(shown).toMatchObject({ ledger_ok: true, reserved: 0 });
}

// These tests wait for the time that they charge, each with an account of its own.
describe.concurrent('what is charged is what was heard', () => {
  test('a session that its caller closes', async () => {
    const own = await ownAccount();
    const client = await streaming(own);
    await delay(3_000);
    client.close();
    expect((await client.closed).code).toBe(1005);
    const charge = await settled(client.sessionId, own);
    expect(charge).toMatchObject({ status: 'succeeded', reason: null });
    expectCharged(charge, client);
    await expectCleanBooks(own);
  });

  test('a session that reaches its ceiling is stopped there, and costs what was announced', async () => {
    // A balance for 4.3 s is too little for any session; 6.5 USD grant six seconds.
    const poor = await stack.newAccount({ balanceUsd: 6.5 });
    const answer = await openVoice(poor.api, { duration_minutes: 5 });
    expect(answer.body).toMatchObject({ max_duration_sec: 6, max_cost_usd: 6 });
    const second = await openVoice(poor.api, { duration_minutes: 5 });
    expect([second.status, second.body]).toMatchObject([402, { error: { code: 'insufficient_balance' } }]);
    await stack.admin('session', 'end', { session: (answer.body as OpenedVoice).session_id });
    await settled((answer.body as OpenedVoice).session_id, poor);

    const lag = watchGateway(account.api.baseUrl);
    const client = await streaming(poor);
    expect(client.maxDurationSec).toBe(6);
    const { code, reason, at } = await client.closed;
    const lateMs = await lag.stop();
    expect([code, reason]).toEqual([4001, expect.stringContaining('session_limit_reached')]);
    expect(at - client.sentAt).toBeGreaterThan(6_000 - ROUNDING_MS);
    expect(at - client.firstAt - lateMs).toBeLessThan(6_250 + SEEN_LATE_MS);
    const charge = await settled(client.sessionId, poor);
    expect(charge).toMatchObject({ status: 'succeeded', reason: 'session_limit_reached' });
    expect(charge.ms).toBeLessThanOrEqual(6_000);
    expect(charge.ms).toBeGreaterThan(5_700 - lateMs);
    expectCharged(charge, client);
    await expectCleanBooks(poor);
  });

  test('a client that is gone without a word, and one that never sent anything', async () => {
    const own = await ownAccount();
    const [gone, silent] = [await streaming(own), await connectVoice(own.api)];
    await delay(1_500);
    gone.vanish();
    silent.vanish();
    // When the gateway answers this call, it has read that the clients are gone; until then it may have sent more.
    await own.api.get('/balance');
    const most = performance.now() - gone.sentAt;
    const charge = await settled(gone.sessionId, own);
    expect(charge.status).toBe('succeeded');
    expect(charge.ms).toBeGreaterThanOrEqual(gone.streamed.least - ROUNDING_MS);
    expect(charge.ms).toBeLessThan(most + SEEN_LATE_MS);
    expect(await settled(silent.sessionId, own)).toEqual({ status: 'failed', reason: 'no_stream', ms: 0 });
    await expectCleanBooks(own);
  });

  test('a session whose LiveSession is deleted with kubectl', async () => {
    const own = await ownAccount();
    const client = await streaming(own);
    await delay(1_000);
    await stack.kubectl(['delete', 'livesession', client.sessionId, '--wait=true']);
    const { code } = await client.closed;
    expect(code).toBe(4003);
    const charge = await settled(client.sessionId, own);
    expect(charge).toMatchObject({ status: 'succeeded', reason: 'cancelled' });
    expectCharged(charge, client);
    await expectCleanBooks(own);
  });

  test('a network that stands still for 5 s costs nobody the session: it goes on, and is charged by the clock of its frames', async () => {
    const own = await ownAccount();
    const gateway = new URL(own.api.baseUrl);
    const pairs = new Set<[Socket, Socket]>();
    const proxy = createServer((near) => {
      const far = tcp(Number(gateway.port), gateway.hostname);
      pairs.add([near, far]);
      near.pipe(far).on('error', () => near.destroy());
      far.pipe(near).on('error', () => far.destroy());
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    try {
      const { port } = proxy.address() as { port: number };
      const client = await streaming(own, `127.0.0.1:${port}`);
      await delay(1_000);
      for (const pair of pairs) for (const socket of pair) socket.pause();
      await delay(5_000);
      const before = client.received.length;
      for (const pair of pairs) for (const socket of pair) socket.resume();
      await eventually('sound to flow again', () => client.received.length > before + 50 || undefined);
      client.close();
      await client.closed;
      const charge = await settled(client.sessionId, own);
      expect(charge).toMatchObject({ status: 'succeeded', reason: null });
      expect(charge.ms).toBeGreaterThan(6_000);
      expectCharged(charge, client);
    } finally {
      proxy.close();
      for (const pair of pairs) for (const socket of pair) socket.destroy();
    }
    await expectCleanBooks(own);
  });
});

describe('kill -9 while sound flows', () => {
  test.each(SERVICE_NAMES.filter((name) => !['gateway', 'gpu-agent'].includes(name)))(
    '%s: the session goes on and is charged as if nothing had been',
    async (service) => {
      const client = await streaming();
      await delay(1_000);
      const { back } = kill(service);
      const killedAt = performance.now();
      await delay(4_000);
      await eventually('sound to go on', () => client.lastAt - killedAt > 4_000 || undefined, { everyMs: 5 });
      client.close();
      expect((await client.closed).code).toBe(1005);
      await back;
      const charge = await settled(client.sessionId);
      expect(charge).toMatchObject({ status: 'succeeded', reason: null });
      expectCharged(charge, client);
      await expectCleanBooks();
    },
    200_000,
  );

  test('gateway: what was reported is charged, at most one report less than was heard', async () => {
    const lag = watchGateway(account.api.baseUrl);
    const client = await streaming();
    await delay(5_000);
    const lateMs = await lag.stop();
    const { back } = kill('gateway');
    expect((await client.closed).code).toBe(1006);
    await back;
    const charge = await settled(client.sessionId);
    expect(charge).toMatchObject({ status: 'succeeded', reason: 'timed_out' });
    expect(charge.ms).toBeLessThan(client.streamed.most + SEEN_LATE_MS);
    expect(charge.ms).toBeGreaterThan(client.streamed.least - REPORT_MS - 2 * SEEN_LATE_MS - lateMs);
    await expectCleanBooks();
  }, 200_000);

  test('gpu-agent: the socket is closed, and what was heard is charged', async () => {
    const client = await streaming();
    await delay(2_500);
    const { back } = kill('gpu-agent');
    const { code, reason } = await client.closed;
    expect([code, reason]).toEqual([1011, expect.stringContaining('render_failed')]);
    const charge = await settled(client.sessionId);
    expect(charge).toMatchObject({ status: 'succeeded', reason: 'render_failed' });
    expectCharged(charge, client);
    await back;
    await expectCleanBooks();
  }, 200_000);

  test('after all of it sessions are opened as before, and no slot is lost', async () => {
    const open = [await streaming(), await streaming()];
    for (const client of open) client.close();
    for (const client of open) expect((await settled(client.sessionId)).status).toBe('succeeded');
    const resources = await eventually('every LiveSession to have ended', async () => {
      const list = JSON.parse(await stack.kubectl(['get', 'livesessions', '-o', 'json'])) as {
        items: { status?: { phase?: string } }[];
      };
      return list.items.every(({ status }) => status?.phase === 'Ended') ? list.items.length : undefined;
    });
    expect(resources).toBeGreaterThan(0);
    await expectCleanBooks();
  }, 200_000);
});
