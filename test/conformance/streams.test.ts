import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { DEFAULT_LIVE_PROMPT } from '@semblance/common/live-prompt';
import { apiOf } from '@semblance/testkit/stack/api';
import { eventually } from '@semblance/testkit/stack/eventually';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { connectStream, type SessionRecord, type Stream } from '@semblance/testkit/stack/live-session';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { root } from '@semblance/testkit/stack/stack-process';
import { streamedMs, watchGateway } from '@semblance/testkit/stack/streamed';
import { beforeAll, describe, expect, test } from 'vitest';
import WebSocket from 'ws';

let stack: Stack;
/** Rate in US dollars per minute, by capability. */
const rates = new Map<string, number>();

interface UsageEntry {
  readonly id: string;
  readonly endpoint: string;
  readonly feature: string;
  readonly status: string;
  readonly charged_usd: number;
  readonly reason: string | null;
}

beforeAll(async () => {
  stack = await sharedStack();
  const card = (await apiOf({ baseUrl: stack.api.baseUrl }).get('/pricing')).body as {
    capabilities: { capability: string; enabled: boolean; rates: { rate_usd: number }[] }[];
  };
  for (const { capability, enabled, rates: own } of card.capabilities)
    if (enabled) rates.set(capability, own[0]?.rate_usd ?? 0);
  expect(rates.has('voice'), 'nothing here carries voice').toBe(true);
}, 240_000);

const rate = () => rates.get('voice') ?? 0;

/** Opens a session. Repeats that while tests beside it hold the few slots. */
async function open({ api }: Account, body: object = {}, path = '/voice/session'): Promise<SessionRecord> {
  return eventually(
    'a slot',
    async () => {
      const answer = await api.post(path, body);
      if (answer.status === 200) return answer.body as SessionRecord;
      expectError(answer, 'capacity_unavailable', 'capacity_warming', 'at_capacity');
      return undefined;
    },
    { withinMs: 100_000, everyMs: 500 },
  );
}

async function settled({ api }: Account, id: string): Promise<UsageEntry> {
  return eventually('the session to be settled', async () => {
    const entries = (await api.get('/usage')).body as UsageEntry[];
    const entry = entries.find((one) => one.id === id);
    return entry && !['queued', 'processing'].includes(entry.status) ? entry : undefined;
  });
}

interface Format {
  readonly sample_rate: number;
  readonly chunk_frames: number;
}

const formatOf = ({ firstFrame }: Stream) => JSON.parse(firstFrame) as Format;

/**
 * Sends `seconds` of noise in real time, in messages of `frames` samples, and returns the bytes sent.
 * @param sentAt receives the time of each message
 */
async function speak(
  stream: Stream,
  seconds: number,
  frames: number,
  sentAt: number[] = [],
): Promise<Buffer> {
  const { sample_rate } = formatOf(stream);
  const sent: Buffer[] = [];
  const began = performance.now();
  for (let at = 0; at < seconds * sample_rate; at += frames) {
    const early = (at / sample_rate) * 1000 - (performance.now() - began);
    if (early > 0) await delay(early);
    const size = Math.min(frames, Math.round(seconds * sample_rate) - at);
    sent.push(randomBytes(size * 2));
    sentAt.push(performance.now());
    stream.ws.send(sent.at(-1) as Buffer);
  }
  return Buffer.concat(sent);
}

const joined = (stream: Stream) => Buffer.concat(stream.media.map(({ data }) => data));
const allOf = (stream: Stream, sent: Buffer) =>
  eventually('all of it to come back', async () => joined(stream).length >= sent.length || undefined);

describe('Voice Swap', () => {
  test('Response: Voice Swap session record', async () => {
    const account = await stack.newAccount();
    const session = await open(account, { duration_minutes: 2 });
    expect(session).toEqual({
      session_id: expect.stringMatching(/\w/),
      stream_url: expect.stringMatching(/^wss?:\/\//),
      session_token: expect.stringMatching(/\w/),
      max_duration_sec: 120,
      max_cost_usd: expect.any(Number),
    });
    expect(session.max_cost_usd, 'Computed from max_duration_sec').toBeCloseTo(rate() * 2, 6);
    await (await connectStream(session)).close();
    expect(await settled(account, session.session_id)).toMatchObject({
      endpoint: 'voice',
      feature: 'voice_swap',
      status: 'failed',
      reason: 'no_stream',
      charged_usd: 0,
    });
  });

  test('open → socket → one text frame → audio both ways, passed through unchanged → close → the charge for the seconds streamed', async () => {
    const account = await stack.newAccount({ balanceUsd: 10 });
    const session = await open(account);
    const stream = await connectStream(session);
    const { sample_rate, chunk_frames } = formatOf(stream);
    expect([Number.isInteger(sample_rate), Number.isInteger(chunk_frames)]).toEqual([true, true]);
    expect(sample_rate * chunk_frames).toBeGreaterThan(0);
    // The connection carries nothing yet, and the meter starts at the first converted frame.
    await delay(1_500);
    const sentAt: number[] = [];
    const sent = await speak(stream, 2, chunk_frames, sentAt);
    await allOf(stream, sent);
    expect(joined(stream).equals(sent), 'sample for sample').toBe(true);
    expect(stream.texts, 'audio and nothing else').toEqual([]);
    await delay(700);
    await stream.close();
    const entry = await settled(account, session.session_id);
    expect(entry).toMatchObject({ status: 'succeeded', reason: null });
    const told = (await stack.admin('session', 'list', { account: account.accountId })) as unknown as {
      session_id: string;
      streamed_sec: number;
    }[];
    const seconds = told.find(({ session_id }) => session_id === session.session_id)?.streamed_sec ?? 0;
    // The charge is seconds × (per-minute rate / 60), rounded to the micro-dollar; seconds have three decimals.
    expect(entry.charged_usd).toBe(Math.round((rate() * 1e6 * seconds) / 60) / 1e6);
    const ms = seconds * 1000;
    const [firstAt, lastAt] = [stream.media[0]?.at ?? 0, stream.media.at(-1)?.at ?? 0];
    const messageMs = (chunk_frames / sample_rate) * 1000;
    const { least, most } = streamedMs({ sentAt, firstAt, lastAt, back: sentAt.length, messageMs });
    // The last message may be shorter than the others, and the charge is for whole milliseconds.
    expect(ms, `${least} to ${most} ms were streamed`).toBeGreaterThan(least - messageMs - 2);
    expect(ms, `${least} to ${most} ms were streamed`).toBeLessThan(most + 2);
    expect(await account.api.balance()).toMatchObject({
      balance_usd: expect.closeTo(10 - entry.charged_usd, 6),
      total_spent_usd: entry.charged_usd,
    });
  });

  test('messages much smaller and much larger than chunk_frames, and empty ones, are taken', async () => {
    const account = await stack.newAccount();
    const stream = await connectStream(await open(account));
    const { sample_rate, chunk_frames } = formatOf(stream);
    const parts = [
      await speak(stream, 0.3, Math.ceil(chunk_frames / 8)),
      await speak(stream, 0.3, chunk_frames * 3 + 7),
    ];
    stream.ws.send(Buffer.alloc(0));
    parts.push(await speak(stream, chunk_frames / sample_rate, chunk_frames));
    const sent = Buffer.concat(parts);
    await allOf(stream, sent);
    expect(joined(stream).equals(sent)).toBe(true);
    await stream.close();
  });

  test('a chosen voice: converted audio returns in the same format', { tags: ['speech'] }, async () => {
    const account = await stack.newAccount();
    const [voice] = (await account.api.get('/voices')).body as { id: string }[];
    if (!voice) {
      const answer = await account.api.post('/voice/session', { voice_profile_id: 'warm-baritone' });
      return expectError(answer, 'invalid_input');
    }
    const stream = await connectStream(await open(account, { voice_profile_id: voice.id }));
    const { chunk_frames } = formatOf(stream);
    const sent = await speak(stream, 1, chunk_frames);
    await allOf(stream, sent);
    expect(joined(stream).length % 2).toBe(0);
    expect(joined(stream).equals(sent), 'it is another voice').toBe(false);
    return stream.close();
  });

  test('The client sends audio only, nothing else', async () => {
    const account = await stack.newAccount();
    const text = await connectStream(await open(account));
    text.ws.send('{"hello": 1}');
    expect((await text.closed).code).toBe(1003);
    const large = await connectStream(await open(account));
    large.ws.send(Buffer.alloc(1_000_000));
    expect((await large.closed).code).toBe(1009);
  });

  test('hard-stops at max_duration_sec, which the balance may make less than what was asked for', async () => {
    const seconds = 6;
    const account = await stack.newAccount({ balanceUsd: Math.ceil(rate() * (seconds / 60) * 1e6) / 1e6 });
    const session = await open(account, { duration_minutes: 10 });
    expect(session.max_duration_sec).toBe(seconds);
    const stream = await connectStream(session);
    const { chunk_frames } = formatOf(stream);
    const lag = watchGateway(account.api.baseUrl);
    const sentAt: number[] = [];
    const speaking = speak(stream, seconds + 2, chunk_frames, sentAt).catch(() => Buffer.alloc(0));
    const { code, reason, at } = await stream.closed;
    const lateMs = await lag.stop();
    await speaking;
    expect([code, reason.split(':')[0]]).toEqual([4001, 'session_limit_reached']);
    // The first message was converted between its sending and its return.
    expect(at - (sentAt[0] ?? 0)).toBeGreaterThan(seconds * 1000 - 2);
    expect(at - (stream.media[0]?.at ?? 0) - lateMs).toBeLessThan(seconds * 1000 + 250);
    const entry = await settled(account, session.session_id);
    // The session ended cleanly at its funded cap.
    expect(entry).toMatchObject({ status: 'succeeded', reason: 'session_limit_reached' });
    expect(entry.charged_usd).toBeLessThanOrEqual(session.max_cost_usd);
    expect(entry.charged_usd).toBeGreaterThan(session.max_cost_usd * (0.95 - lateMs / (seconds * 1000)));
  });

  test('The balance must cover the reserved block: what one session has reserved no other one has', async () => {
    const account = await stack.newAccount({ balanceUsd: Math.ceil(rate() * 1.01 * 1e6) / 1e6 });
    const session = await open(account, { duration_minutes: 1 });
    expectError(await account.api.post('/voice/session', { duration_minutes: 1 }), 'insufficient_balance');
    await (await connectStream(session)).close();
    await settled(account, session.session_id);
    await (await connectStream(await open(account, { duration_minutes: 1 }))).close();
  });

  test('a client that is cut off is charged for what it streamed', async () => {
    const account = await stack.newAccount();
    const session = await open(account);
    const stream = await connectStream(session);
    const { sample_rate, chunk_frames } = formatOf(stream);
    const sentAt: number[] = [];
    const sent = await speak(stream, 0.5, chunk_frames, sentAt);
    await allOf(stream, sent);
    stream.ws.terminate();
    const entry = await settled(account, session.session_id);
    expect(entry.status).toBe('succeeded');
    expect(entry.charged_usd).toBeGreaterThan(0);
    const [firstAt, lastAt] = [stream.media[0]?.at ?? 0, stream.media.at(-1)?.at ?? 0];
    const messageMs = (chunk_frames / sample_rate) * 1000;
    const { most } = streamedMs({ sentAt, firstAt, lastAt, back: sentAt.length, messageMs });
    expect(entry.charged_usd).toBeLessThan((rate() * (most + 2)) / 60_000);
  });

  test('Socket connections are authenticated by the session_token, once', async () => {
    const account = await stack.newAccount();
    const session = await open(account);
    const refusal = (url: string) =>
      new Promise<[number | undefined, unknown]>((resolve, reject) => {
        const ws = new WebSocket(url);
        ws.on('error', () => {});
        ws.on('open', () => reject(new Error('it was let in')));
        ws.on('unexpected-response', async (_request, response) => {
          const parts: Buffer[] = [];
          for await (const part of response) parts.push(part as Buffer);
          const body = JSON.parse(Buffer.concat(parts).toString()) as { error: { code: string } };
          resolve([response.statusCode, body.error.code]);
        });
      });
    expect(await refusal(session.stream_url)).toEqual([401, 'unauthorized']);
    expect(await refusal(`${session.stream_url}?session_token=wrong`)).toEqual([401, 'unauthorized']);
    const stream = await connectStream(session);
    const url = `${session.stream_url}?session_token=${session.session_token}`;
    expect(await refusal(url)).toEqual([404, 'not_found']);
    await stream.close();
    await settled(account, session.session_id);
    expect(await refusal(url)).toEqual([404, 'not_found']);
  });

  test('No events exist for sessions', async () => {
    const account = await stack.newAccount();
    const session = await open(account, { callback_url: 'https://example.com/hook' });
    const stream = await connectStream(session);
    const sent = await speak(stream, 0.1, formatOf(stream).chunk_frames);
    await allOf(stream, sent);
    await stream.close();
    await settled(account, session.session_id);
    expect(await stack.admin('delivery', 'list', { account: account.accountId })).toEqual([]);
  });

  test('the client in docs/guide/integrator/live-sessions.md', async () => {
    const account = await stack.newAccount();
    const docs = await readFile(join(root, 'docs/guide/integrator/live-sessions.md'), 'utf8');
    const [, code = ''] = /```js\n(.*?)```/s.exec(docs) ?? [];
    const folder = await mkdtemp(join(tmpdir(), 'semblance-client-'));
    try {
      const at = (name: string) => join(folder, name);
      const sound = randomBytes(96_000);
      await Promise.all([writeFile(at('client.mjs'), code), writeFile(at('in'), sound)]);
      const args = [at('client.mjs'), account.api.baseUrl, account.apiKey, '-', at('in'), at('out')];
      const { stdout } = await promisify(execFile)(process.execPath, args);
      expect((await readFile(at('out'))).equals(sound)).toBe(true);
      const [id = ''] = stdout.split(' ');
      expect((await settled(account, id)).charged_usd).toBeGreaterThan(0);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});

describe('Live Swap Pro', () => {
  test('Response: Live Swap Pro session record', async () => {
    const account = await stack.newAccount({ balanceUsd: 100 });
    const path = '/full-live-swap/session';
    if (!rates.has('full-live-swap'))
      return expectError(await account.api.post(path, { duration_minutes: 1 }), 'capability_unavailable');
    for (const [body, prompt] of [
      [{ duration_minutes: 1 }, DEFAULT_LIVE_PROMPT],
      [{ duration_minutes: 1, prompt: 'Keep my own face.' }, 'Keep my own face.'],
    ] as const) {
      const session = await open(account, body, path);
      expect(session).toEqual({
        session_id: expect.stringMatching(/\w/),
        stream_url: expect.stringMatching(/^wss?:\/\//),
        session_token: expect.stringMatching(/\w/),
        prompt,
        max_duration_sec: 60,
        max_cost_usd: expect.closeTo(rates.get('full-live-swap') ?? 0, 6),
      });
      const stream = await connectStream(session);
      expect(JSON.parse(stream.firstFrame)).toMatchObject({
        width: expect.any(Number),
        height: expect.any(Number),
        fps: expect.any(Number),
        codec: expect.any(String),
      });
      await stream.close();
    }
    return undefined;
  });
});
