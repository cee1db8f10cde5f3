import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { EndReason } from '@semblance/proto/semblance/live/v1/live';
import { VOICE_READY } from '@semblance/testkit/gateway/agent-double';
import { CHUNK, streamRig } from '@semblance/testkit/gateway/stream-rig';
import { tokenRig } from '@semblance/testkit/gateway/token-rig';
import { describe, expect, it } from 'vitest';
import WebSocket from 'ws';

const rig = tokenRig();

describe('a voice stream', () => {
  it('begins with one text frame as the agent wrote it; then sound, bit for bit, in order', async () => {
    const { client, relay, id } = await rig.stream();
    expect(client.texts).toEqual([VOICE_READY.firstFrame]);
    const sent = Array.from({ length: 40 }, (_, i) => randomBytes(i % 7 === 0 ? 2 : 1_920));
    for (const chunk of sent) client.ws.send(chunk);
    await client.received(40);
    expect(Buffer.concat(client.media).equals(Buffer.concat(sent))).toBe(true);
    expect(Buffer.concat(relay.received).equals(Buffer.concat(sent))).toBe(true);
    expect(client.texts).toHaveLength(1);
    client.ws.close();
    expect((await client.end()).code).toBe(1005);
    await expect.poll(() => [relay.closed, relay.over]).toEqual([EndReason.END_REASON_UNSPECIFIED, true]);
    expect((await rig.final(id)).reason).toBeUndefined();
  });

  it('no compression', async () => {
    const session = await rig.open();
    const ws = new WebSocket(rig.urlOf(session), { perMessageDeflate: true });
    await new Promise((resolve) => ws.once('open', resolve));
    expect(ws.extensions).toBe('');
    ws.close();
  });

  it('no subprotocol: a client that needs one is told that none is spoken', async () => {
    const session = await rig.open();
    const ws = new WebSocket(rig.urlOf(session), ['voice', 'other']);
    const answer = new Promise<string | undefined>((resolve) =>
      ws.once('upgrade', ({ headers }) => resolve(headers['sec-websocket-protocol'])),
    );
    const fault = new Promise<Error>((resolve) => ws.once('error', resolve));
    expect(await answer).toBeUndefined();
    expect((await fault).message).toBe('Server sent no subprotocol');
  });

  it('a client that shows its token in Authorization', async () => {
    const session = await rig.open();
    const [address, token] = rig.urlOf(session).split('?session_token=');
    const ws = new WebSocket(address as string, { headers: { authorization: `Bearer ${token}` } });
    await new Promise((resolve) => ws.once('open', resolve));
    ws.close();
  });

  it('is metered from the first converted message, and reported while it runs', async () => {
    const { client, id } = await rig.stream();
    await expect
      .poll(() => rig.live.reportsOf(id).length, { message: 'known to be alive' })
      .toBeGreaterThan(0);
    expect(rig.live.reportsOf(id).every(({ streamedMs }) => streamedMs === 0n)).toBe(true);
    const began = performance.now();
    client.ws.send(CHUNK);
    await client.received(1);
    await delay(400);
    const told = () => rig.live.reportsOf(id).map((report) => Number(report.streamedMs));
    await expect.poll(told, { message: 'reported while it runs' }).toContain(20);
    client.ws.send(CHUNK);
    await client.received(2);
    const took = performance.now() - began;
    await delay(200);
    client.ws.close();
    const { streamedMs, reason } = await rig.final(id);
    expect(reason).toBeUndefined();
    expect(streamedMs, 'between the two, and what the second lasts').toBeGreaterThanOrEqual(400);
    expect(streamedMs).toBeLessThanOrEqual(took + 21);
    expect(told(), 'only grows').toEqual(told().sort((a, b) => a - b));
  });

  it('a clock that is stepped moves no meter and ends nothing', async () => {
    const { client, id } = await rig.stream();
    const began = performance.now();
    client.ws.send(CHUNK);
    await client.received(1);
    const { now } = Date;
    Date.now = () => now() + 86_400_000;
    try {
      await delay(150);
      client.ws.send(CHUNK);
      await client.received(2);
    } finally {
      Date.now = now;
    }
    const took = performance.now() - began;
    client.ws.close();
    expect((await client.end()).code).toBe(1005);
    const { streamedMs } = await rig.final(id);
    expect(streamedMs).toBeGreaterThan(140);
    expect(streamedMs).toBeLessThanOrEqual(took + 21);
  });

  it('one that never got anything back comes to 0', async () => {
    rig.agent.mode = 'hold';
    const { client, id } = await rig.stream();
    client.ws.send(CHUNK);
    await delay(100);
    client.ws.close();
    expect(await rig.final(id)).toEqual({ streamedMs: 0, reason: undefined });
  });

  it('"The stream hard-stops at max_duration_sec": 4001, within 250 ms, and no more than that is reported', async () => {
    rig.live.grant = { ...rig.live.grant, maxDurationSeconds: 1 };
    const { client, relay, id } = await rig.stream();
    // Timers of one process run in order of their due times, however late: the limit's timer is set between these
    // two and runs between them.
    const open: number[] = [];
    const look = () => open.push(rig.gateway.gateway.live.size);
    setTimeout(look, 900);
    client.ws.send(CHUNK);
    await client.received(1);
    setTimeout(look, 1_250);
    const feed = setInterval(() => client.ws.readyState === client.ws.OPEN && client.ws.send(CHUNK), 20);
    const { code, reason } = await client.end();
    clearInterval(feed);
    expect([code, reason]).toEqual([4001, 'session_limit_reached: the 1 s that were granted are used up']);
    await expect.poll(() => open).toEqual([1, 0]);
    const final = await rig.final(id);
    expect(final.reason).toBe('session_limit_reached');
    expect(final.streamedMs).toBeLessThanOrEqual(1_000);
    await expect.poll(() => relay.closed).toBe(EndReason.END_REASON_SESSION_LIMIT_REACHED);
  });

  it('stops at the limit when nothing is sent any more, too', async () => {
    rig.live.grant = { ...rig.live.grant, maxDurationSeconds: 1 };
    const { client, id } = await rig.stream();
    client.ws.send(CHUNK);
    expect((await client.end()).code).toBe(4001);
    expect(await rig.final(id)).toEqual({ streamedMs: 20, reason: 'session_limit_reached' });
  });

  it.each<[string, string | Buffer, number, string]>([
    ['a text', 'hello', 1003, 'unsupported_data'],
    ['a message larger than the agent takes', Buffer.alloc(192_002), 1009, 'too_big'],
  ])('%s closes it, with a code and a reason', async (_name, message, code, word) => {
    const { client, relay, id } = await rig.stream();
    client.ws.send(message);
    const end = await client.end();
    expect([end.code, end.reason.split(':')[0]]).toEqual([code, word]);
    expect(relay.received).toEqual([]);
    expect((await rig.final(id)).reason, 'the caller ended it').toBeUndefined();
  });

  it('half a sample waits for the message with its other half', async () => {
    const { client, relay } = await rig.stream();
    const sound = Buffer.from(Array.from({ length: 960 }, (_, i) => i % 251));
    for (const [from, to] of [
      [0, 1],
      [1, 2],
      [2, 501],
      [501, 501],
      [501, 959],
      [959, 960],
    ] as const)
      client.ws.send(sound.subarray(from, to));
    await expect.poll(() => Buffer.concat(relay.received).length).toBe(960);
    expect(Buffer.concat(relay.received)).toEqual(sound);
    expect(relay.received.every(({ length }) => length % 2 === 0)).toBe(true);
    client.ws.close();
  });

  it('messages that are empty are harmless', async () => {
    const { client, relay } = await rig.stream();
    for (let i = 0; i < 20; i++) client.ws.send(Buffer.alloc(0));
    client.ws.send(CHUNK);
    await client.received(1);
    expect(relay.received).toEqual([CHUNK]);
    client.ws.close();
  });
});

describe('by a clock that the test moves', () => {
  let now = 50_000;
  const still = streamRig({ liveStreams: { clock: () => now } });

  it('media is sent until the limit and not from then on, and reported to the millisecond', async () => {
    still.live.grant = { ...still.live.grant, maxDurationSeconds: 1 };
    const { client, id } = await still.stream();
    for (const [i, ms] of [0, 500, 499].entries()) {
      now += ms;
      client.ws.send(CHUNK);
      await client.received(i + 1);
    }
    expect(client.closed).toBeUndefined();
    now += 1;
    client.ws.send(CHUNK);
    expect((await client.end()).code).toBe(4001);
    expect(client.media).toHaveLength(3);
    expect(await still.final(id)).toEqual({ streamedMs: 1_000, reason: 'session_limit_reached' });
    still.live.grant = { ...still.live.grant, maxDurationSeconds: 600 };
  });

  it('sound that is sent at once is billed for what it lasts', async () => {
    const { client, id } = await still.stream();
    for (let i = 0; i < 100; i++) client.ws.send(CHUNK);
    await client.received(100);
    now += 100;
    client.ws.send(CHUNK.subarray(0, 960));
    await client.received(101);
    client.ws.close();
    expect(await still.final(id)).toEqual({ streamedMs: 2_010, reason: undefined });
  });

  it('faster than real time is taken for two seconds of sound, then closes it with 1008', async () => {
    const { client, relay } = await still.stream();
    for (let i = 0; i < 100; i++) client.ws.send(CHUNK);
    await client.received(100);
    now += 1_000;
    for (let i = 0; i < 50; i++) client.ws.send(CHUNK);
    await client.received(150);
    expect(client.closed).toBeUndefined();
    client.ws.send(CHUNK);
    const { code, reason } = await client.end();
    expect([code, reason]).toEqual([1008, 'too_fast: more than 48000 samples a second']);
    // The agent learns it too; for the session it counts as ended by the caller.
    await expect.poll(() => relay.fault).toBe('too_fast: more than 48000 samples a second');
    expect(relay.closed).toBe(EndReason.END_REASON_UNSPECIFIED);
    expect(relay.received).toHaveLength(150);
  });

  it('thousands of tiny messages or pings close it, too', async () => {
    const many = await still.stream();
    for (let i = 0; i < 1_000; i++) many.client.ws.send(Buffer.alloc(i % 2 ? 2 : 0));
    await many.client.received(500);
    expect(many.client.closed).toBeUndefined();
    many.client.ws.send(Buffer.alloc(0));
    expect((await many.client.end()).reason).toBe('too_fast: more than 500 messages a second');
    const pings = await still.stream();
    let pongs = 0;
    pings.client.ws.on('pong', () => {
      pongs++;
      pings.client.ws.ping();
    });
    for (let i = 0; i < 20; i++) pings.client.ws.ping();
    expect((await pings.client.end()).code).toBe(1008);
    expect(pongs).toBeGreaterThanOrEqual(1_000);
  });

  it('so do thousands of pongs that nobody asked for; those that were asked for do not count', async () => {
    const noisy = await still.stream();
    for (let i = 0; i <= 1_000; i++) noisy.client.ws.pong();
    expect((await noisy.client.end()).reason).toBe('too_fast: more than 500 messages a second');
    const { client } = await still.stream();
    let pings = 0;
    client.ws.on('ping', () => pings++);
    // The whole burst at once: it contains a second of sound, of which each quarter asks for a pong.
    for (let i = 0; i < 1_000; i++) {
      client.ws.send(CHUNK.subarray(0, 96));
      if (i % 100 === 99) await client.received(i + 1);
    }
    await expect.poll(() => pings).toBeGreaterThanOrEqual(2);
    now += 10;
    await client.heard();
    expect(client.closed).toBeUndefined();
    client.ws.close();
  });
});

describe('what else ends a stream', () => {
  it.each([
    ['cancelled', EndReason.END_REASON_CANCELLED, 4003, 'cancelled: by kubectl'],
    ['timed_out', EndReason.END_REASON_TIMED_OUT, 4002, 'timed_out: by kubectl'],
    [
      'session_limit_reached',
      EndReason.END_REASON_SESSION_LIMIT_REACHED,
      4001,
      'session_limit_reached: by kubectl',
    ],
    ['render_failed', EndReason.END_REASON_RENDER_FAILED, 1011, 'render_failed: by kubectl'],
    [undefined, EndReason.END_REASON_UNSPECIFIED, 1000, 'closed: by kubectl'],
  ])('the agent ends it: %s', async (reported, reason, code, text) => {
    const { client, relay, id } = await rig.stream();
    relay.ended(reason, 'by kubectl');
    expect(await client.end()).toMatchObject({ code, reason: text });
    expect((await rig.final(id)).reason).toBe(reported);
  });

  it('the agent breaks off with some messages unanswered, others answered in parts: billed is what came', async () => {
    rig.agent.mode = 'hold';
    const { client, relay, id } = await rig.stream();
    for (let k = 0; k < 10; k++) client.ws.send(CHUNK);
    await expect.poll(() => relay.waiting.length).toBe(10);
    rig.agent.mode = 'echo';
    // Three parts are made of the first four messages, and nothing of the others.
    const began = performance.now();
    for (let part = 0; part < 3; part++) relay.media(4n, CHUNK);
    await client.received(3);
    const took = performance.now() - began;
    await delay(200);
    relay.ended(EndReason.END_REASON_RENDER_FAILED, 'the stream could not be converted');
    expect(await client.end()).toMatchObject({ code: 1011 });
    const { streamedMs, reason } = await rig.final(id);
    expect(reason).toBe('render_failed');
    expect(streamedMs).toBeGreaterThanOrEqual(60);
    expect(streamedMs).toBeLessThanOrEqual(Math.max(60, took + 21));
  });

  it('the agent breaks off: 1011', async () => {
    const { client, relay, id } = await rig.stream();
    client.ws.send(CHUNK);
    await client.received(1);
    relay.break();
    expect(await client.end()).toMatchObject({ code: 1011 });
    expect(await rig.final(id)).toEqual({ streamedMs: 20, reason: 'render_failed' });
  });

  it.each([
    ['session_limit_reached', 4001],
    ['timed_out', 4002],
    ['cancelled', 4003],
    ['render_failed', 1011],
    ['no_stream', 4002],
    [undefined, 4003],
  ])('the control plane says that it is over: %s', async (reason, code) => {
    const { client, id, relay } = await rig.stream();
    rig.live.verdicts.set(id, { over: true, reason });
    expect(await client.end()).toMatchObject({ code });
    await expect.poll(() => relay.over).toBe(true);
  });

  it('a client that is cut off: what was streamed is reported', async () => {
    const { client, relay, id } = await rig.stream();
    client.ws.send(CHUNK);
    await client.received(1);
    client.ws.terminate();
    expect(await rig.final(id)).toEqual({ streamedMs: 20, reason: undefined });
    await expect.poll(() => relay.over).toBe(true);
  });
});
