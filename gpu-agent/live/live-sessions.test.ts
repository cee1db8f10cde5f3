import { setTimeout as delay } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { createClient } from '@semblance/common/grpc/client';
import { EndReason, LiveServiceClient } from '@semblance/proto/semblance/live/v1/live';
import { startTcpProxy } from '@semblance/testkit/common/tcp-proxy';
import { until } from '@semblance/testkit/gpu-agent/harness';
import { type HttpStore, startHttpStore } from '@semblance/testkit/gpu-agent/http-store';
import { type LiveRig, startLiveRig } from '@semblance/testkit/live/live-rig';
import { bytesInUse } from '@semblance/testkit/live/memory';
import { createTestLiveEngine } from '@semblance/testkit/live/test-live-engine';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { DEFAULT_SESSION_LIMITS } from './sessions/session-table.ts';

const CAPABILITY = 'full-live-swap';
const { engine, state } = createTestLiveEngine();
let holdsLease = true;
let rig: LiveRig;
let store: HttpStore;

beforeAll(async () => {
  store = await startHttpStore();
  rig = await startLiveRig({
    engines: [engine],
    holdsLease: () => holdsLease,
    // The limit is small, so that the memory for ended sessions soon reaches its maximum.
    limits: { ...DEFAULT_SESSION_LIMITS, told: 50 },
  });
});
afterAll(async () => {
  await rig.close();
  await store.close();
});
beforeEach(() => {
  holdsLease = true;
  state.held = undefined;
  state.onOpen = undefined;
});

const claim = (change: Parameters<LiveRig['claim']>[0] = {}) =>
  rig.claim({ capability: CAPABILITY, ...change });
const stateOf = (id: string) => rig.live.sessions.get(id);
const picture = (fill: number, length = 20_000) => new Uint8Array(length).fill(fill);

describe('claims', () => {
  it('storming in take no more than the slots there are, and a slot is free when its end is answered', async () => {
    const storm = await Promise.allSettled(Array.from({ length: 60 }, () => claim()));
    const taken = storm.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
    expect(taken).toHaveLength(2);
    for (const each of storm)
      if (each.status === 'rejected') expect(each.reason).toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    expect(await rig.figure('semblance_agent_live_slots_used', CAPABILITY)).toBe(2);
    expect(await rig.figure('semblance_agent_live_claims_refused_total', 'no-slot')).toBe(58);
    await rig.end(taken[0] as string);
    const next = await claim();
    await Promise.all([taken[1] as string, next].map((id) => rig.end(id)));
    expect(state.open).toBe(0);
  });

  it('of the same session are one, and none once it has ended', async () => {
    const id = await claim();
    await Promise.all(Array.from({ length: 20 }, () => claim({ sessionId: id })));
    expect(rig.live.sessions.held(CAPABILITY)).toBe(1);
    await rig.end(id);
    await expect(claim({ sessionId: id })).rejects.toMatchObject({ code: status.FAILED_PRECONDITION });
  });

  it('that come after their end are refused', async () => {
    await rig.end('ses-late');
    await expect(claim({ sessionId: 'ses-late' })).rejects.toMatchObject({
      code: status.FAILED_PRECONDITION,
      details: 'the session has ended here',
    });
  });

  it.each([
    ['another process', { incarnation: 'other' }, status.FAILED_PRECONDITION],
    ['a capability of jobs', { capability: 'face-swap' }, status.INVALID_ARGUMENT],
    ['a capability without an engine here', { capability: 'voice' }, status.INVALID_ARGUMENT],
    ['a name that is none', { sessionId: 'Ses/1' }, status.INVALID_ARGUMENT],
    ['a digest that is none', { ticketSha256: Buffer.alloc(31) }, status.INVALID_ARGUMENT],
    ['no time to connect', { connectDeadlineSeconds: 0 }, status.INVALID_ARGUMENT],
    ['no time to stream', { maxDurationSeconds: 0 }, status.INVALID_ARGUMENT],
    [
      'a link that is none',
      { inputs: { face: { url: 'file:///etc/passwd', maxBytes: 0n } } },
      status.INVALID_ARGUMENT,
    ],
  ])('for %s are refused', async (_what, change, code) => {
    await expect(claim(change)).rejects.toMatchObject({ code });
    expect(rig.live.sessions.held(CAPABILITY)).toBe(0);
  });

  it('are refused without the Lease, and while the agent drains', async () => {
    holdsLease = false;
    await expect(claim()).rejects.toMatchObject({ code: status.UNAVAILABLE });
    holdsLease = true;
    rig.live.sessions.drain(true);
    await expect(claim()).rejects.toMatchObject({ code: status.FAILED_PRECONDITION });
    rig.live.sessions.drain(false);
    await rig.end(await claim());
  });
});

describe('a relay', () => {
  it('is refused for what it is not, and none of that costs the session its relay', async () => {
    const id = await claim();
    const wrong = rig.relay(id, Buffer.alloc(32));
    await expect(wrong.ready).rejects.toMatchObject({ code: status.UNAUTHENTICATED });
    await expect(rig.relay(id, Buffer.alloc(0)).ready).rejects.toMatchObject({
      code: status.UNAUTHENTICATED,
    });
    await expect(rig.relay('ses-none').ready).rejects.toMatchObject({ code: status.NOT_FOUND });
    const early = rig.client.relay();
    early.write({ request: { $case: 'media', value: { sequence: 1n, data: Buffer.alloc(1) } } });
    const refused = await new Promise((resolve) => early.on('error', resolve).resume());
    expect(refused).toMatchObject({ code: status.INVALID_ARGUMENT });
    const relay = rig.relay(id);
    await relay.ready;
    await expect(rig.relay(id).ready).rejects.toMatchObject({ code: status.ALREADY_EXISTS });
    relay.send(picture(1));
    expect((await relay.next()).data).toEqual(Buffer.from(picture(1)));
    await relay.close();
    await expect(rig.relay(id).ready).rejects.toMatchObject({ code: status.ALREADY_EXISTS });
    expect(stateOf(id)).toMatchObject({ state: 'ended', converted: 1, end: { reason: undefined } });
  });

  it('waits for a session that is not ready yet, with what it sent already', async () => {
    let ready = () => {};
    state.onOpen = () => new Promise((resolve) => (ready = resolve));
    const id = await claim();
    const relay = rig.relay(id);
    relay.send(picture(7));
    await until(() => stateOf(id)?.state === 'connected', 'connected');
    expect(stateOf(id)?.received).toBe(0);
    ready();
    expect((await relay.next()).data[0]).toBe(7);
    await relay.close();
  });

  it('is told why when the session is ended, and gets nothing after that', async () => {
    const id = await claim();
    const relay = rig.relay(id);
    await relay.ready;
    let release = () => {};
    state.held = new Promise((resolve) => (release = resolve));
    relay.send(picture(1));
    await until(() => stateOf(id)?.received === 1, 'received');
    await rig.end(id, EndReason.END_REASON_CANCELLED);
    release();
    expect((await relay.over).code).toBe(status.OK);
    expect(relay.ended()).toEqual({
      reason: EndReason.END_REASON_CANCELLED,
      message: 'the session was ended',
      goingAway: false,
      rejected: '',
    });
    expect(relay.media).toEqual([]);
    expect(state.open).toBe(0);
  });

  it('ends the session when its stream fails, and when it cannot be made ready', async () => {
    const id = await claim();
    const relay = rig.relay(id);
    await relay.ready;
    state.onFailed?.(new Error('a thread ended'));
    await relay.over;
    expect(relay.ended()?.reason).toBe(EndReason.END_REASON_RENDER_FAILED);
    expect(relay.ended()?.message).not.toContain('thread');
    state.onOpen = () => Promise.reject(new Error('no model'));
    const broken = await claim();
    await until(() => stateOf(broken)?.state === 'ended', 'ended');
    expect(stateOf(broken)?.end?.reason).toBe('render_failed');
    const late = rig.relay(broken);
    await late.over;
    expect(late.ended()?.reason).toBe(EndReason.END_REASON_RENDER_FAILED);
  });

  it('that comes after the session was ended is told why, if it has the ticket', async () => {
    const id = await claim();
    await rig.end(id, EndReason.END_REASON_CANCELLED);
    const late = rig.relay(id);
    await late.over;
    expect(late.ended()).toMatchObject({
      reason: EndReason.END_REASON_CANCELLED,
      message: 'the session was ended',
    });
    const stranger = rig.relay(id, Buffer.alloc(32));
    await expect(stranger.ready).rejects.toMatchObject({ code: status.UNAUTHENTICATED });
    expect(stranger.ended()).toBeUndefined();
  });

  it('that vanishes with its gateway ends the session', async () => {
    const proxy = await startTcpProxy({ port: Number(rig.address.split(':')[1]) });
    const gateway = createClient(LiveServiceClient, `127.0.0.1:${proxy.port}`);
    const id = await claim();
    const relay = rig.relay(id, undefined, gateway);
    await relay.ready;
    relay.send(picture(1));
    await relay.next();
    proxy.cut();
    await until(() => stateOf(id)?.state === 'ended', 'ended');
    expect(stateOf(id)).toMatchObject({ converted: 1, end: { reason: 'timed_out' } });
    gateway.close();
    await proxy.close();
  });
});

describe('inputs', () => {
  it('are there for the opening of the stream, and nowhere afterwards', async () => {
    const { readFile } = await import('node:fs/promises');
    store.objects.set('/face', Buffer.from('a face'));
    const seen: string[] = [];
    let path = '';
    state.onOpen = async ({ inputs }) => {
      path = inputs.face ?? '';
      seen.push(await readFile(path, 'utf8'));
    };
    const id = await claim({ inputs: { face: { url: store.url('/face'), maxBytes: 100n } } });
    const relay = rig.relay(id);
    await relay.ready;
    expect(seen).toEqual(['a face']);
    await expect(readFile(path)).rejects.toMatchObject({ code: 'ENOENT' });
    await relay.close();
  });

  it('that cannot be had end the session', async () => {
    const id = await claim({ inputs: { face: { url: store.url('/gone?signature=secret'), maxBytes: 0n } } });
    await until(() => stateOf(id)?.state === 'ended', 'ended');
    expect(stateOf(id)?.end?.reason).toBe('render_failed');
    expect(state.open).toBe(0);
  });
});

describe('time', () => {
  let hasty: LiveRig;
  beforeAll(async () => {
    const limits = { ...DEFAULT_SESSION_LIMITS, idleMs: 1_500, overtimeMs: 200 };
    hasty = await startLiveRig({ engines: [createTestLiveEngine().engine], limits });
  });
  afterAll(() => hasty.close());

  it('ends what nobody connects to, what does not flow, and what flows for too long', async () => {
    const unconnected = await hasty.claim({ capability: CAPABILITY, connectDeadlineSeconds: 1 });
    const still = hasty.relay(await hasty.claim({ capability: CAPABILITY }));
    await still.over;
    expect(still.ended()?.reason).toBe(EndReason.END_REASON_TIMED_OUT);
    const ended = hasty.live.sessions.get(unconnected);
    expect(ended).toMatchObject({ state: 'ended', end: { reason: 'no_stream' } });
    const long = await hasty.claim({ capability: CAPABILITY, maxDurationSeconds: 1 });
    const relay = hasty.relay(long);
    await relay.ready;
    // Timers of one process fire in the order of their due times, however late. The timer of the limit is due 1.2 s
    // after the first look, between these two.
    const ends: boolean[] = [];
    const look = () => ends.push(hasty.live.sessions.get(long)?.end !== undefined);
    const began = performance.now();
    setTimeout(look, 1_100);
    relay.send(picture(1));
    await relay.next();
    setTimeout(look, 1_300);
    for (let over = false; !over; ) {
      relay.send(picture(1));
      over = await Promise.race([delay(50, false), relay.over.then(() => true)]);
    }
    expect(relay.ended()?.reason).toBe(EndReason.END_REASON_SESSION_LIMIT_REACHED);
    await until(() => ends.length === 2, 'looked twice');
    expect(ends).toEqual([false, true]);
    const { streamedMs = 0 } = hasty.live.sessions.get(long) ?? {};
    expect(streamedMs).toBeGreaterThan(0);
    expect(streamedMs).toBeLessThan(performance.now() - began);
  });
});

describe('a thousand sessions', () => {
  it('leave no slot, timer, stream or memory behind', async () => {
    const timers = () => process.getActiveResourcesInfo().filter((name) => /Timeout/.test(name)).length;
    await until(() => rig.live.sessions.held(CAPABILITY) === 0, 'nothing held');
    const [before, opened] = [timers(), state.opened];
    let early = 0;
    for (let k = 0; k < 500; k++) {
      const pair = await Promise.all([claim(), claim()]);
      // Half of the sessions are used, and the others end unused.
      const relay = rig.relay(pair[0]);
      await relay.ready;
      relay.send(picture(k % 251, 100));
      await relay.next();
      await Promise.all([relay.close(), rig.end(pair[1])]);
      if (k === 100) early = await bytesInUse();
    }
    // The agent remembers little more of each session than its end.
    expect((await bytesInUse()) - early).toBeLessThan(2 * 1024 * 1024);
    expect(state.opened - opened).toBe(1_000);
    expect(state.open).toBe(0);
    expect(rig.live.sessions.held(CAPABILITY)).toBe(0);
    await until(() => timers() <= before, 'no timers left');
  });
});
