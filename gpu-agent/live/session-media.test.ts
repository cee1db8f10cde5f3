import { setTimeout as delay } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { EndReason, SessionState } from '@semblance/proto/semblance/live/v1/live';
import { until } from '@semblance/testkit/gpu-agent/harness';
import { type LiveRig, startLiveRig } from '@semblance/testkit/live/live-rig';
import { createTestLiveEngine } from '@semblance/testkit/live/test-live-engine';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';

const CAPABILITY = 'full-live-swap';
const { engine, state } = createTestLiveEngine();
let rig: LiveRig;

beforeAll(async () => {
  rig = await startLiveRig({ engines: [engine] });
});
afterAll(() => rig.close());
beforeEach(() => {
  state.held = undefined;
  state.isBad = () => false;
});

const claim = () => rig.claim({ capability: CAPABILITY });
const stateOf = (id: string) => rig.live.sessions.get(id);
const picture = (fill: number, length = 20_000) => new Uint8Array(length).fill(fill);

describe('newest wins', () => {
  it('with a slow engine: older pictures are thrown away and counted, and all are accounted for', async () => {
    const id = await claim();
    const relay = rig.relay(id);
    await relay.ready;
    let release = () => {};
    state.held = new Promise((resolve) => (release = resolve));
    for (let k = 0; k < 40; k++) relay.send(picture(k));
    await until(() => stateOf(id)?.received === 40, 'all received');
    release();
    state.held = undefined;
    const first = await relay.next();
    const newest = await relay.next();
    expect([first.sequence, newest.sequence]).toEqual([1n, 40n]);
    expect(newest.data).toEqual(Buffer.from(picture(39)));
    await until(() => stateOf(id)?.converted === 2, 'counted');
    expect(stateOf(id)).toMatchObject({ received: 40, converted: 2, dropped: 38 });
    await relay.close();
  });

  it('with a slow reader: what it finds when it reads again is few and then new', async () => {
    const id = await claim();
    const relay = rig.relay(id);
    await relay.ready;
    relay.call.pause();
    const frames = 400;
    for (let k = 0; k < frames; k++) {
      relay.send(picture(k % 251, 100_000));
      if (k % 20 === 0) await delay(5);
    }
    await until(() => stateOf(id)?.received === frames, 'all received');
    const before = stateOf(id);
    expect(before?.dropped).toBeGreaterThan(frames - 40);
    relay.call.resume();
    await until(() => relay.media.at(-1)?.sequence === BigInt(frames), 'the newest');
    const { received = 0, converted = 0, dropped = 0 } = stateOf(id) ?? {};
    expect([received, converted + dropped]).toEqual([frames, frames]);
    await relay.close();
  });
});

describe('a message that cannot be read', () => {
  it('is answered as such, so that nobody takes the engine for one that hangs', async () => {
    const id = await claim();
    const relay = rig.relay(id);
    await relay.ready;
    state.isBad = (message) => message[0] === 13;
    relay.send(picture(13));
    await until(() => relay.unreadable.length === 1, 'told');
    relay.send(picture(1));
    expect((await relay.next()).sequence).toBe(2n);
    relay.send(picture(13));
    await until(() => relay.unreadable.length === 2, 'told');
    expect(relay.unreadable).toEqual([1n, 3n]);
    await until(() => stateOf(id)?.converted === 1, 'counted');
    expect(stateOf(id)).toMatchObject({ received: 3, converted: 1, dropped: 2 });
    await relay.close();
  });
});

describe('watching', () => {
  it('begins with everything held, tells of each state at once, and of progress every two seconds', async () => {
    const held = await claim();
    const watch = rig.watch();
    const first = await watch.first;
    expect(first.snapshot).toBe(true);
    expect(first.sessions.find(({ sessionId }) => sessionId === held)?.state).toBe(
      SessionState.SESSION_STATE_CLAIMED,
    );
    const relay = rig.relay(held);
    await relay.ready;
    const from = watch.messages.length;
    const began = performance.now();
    // The loop goes on longer if the machine stands still.
    while (performance.now() - began < 2_600 || (stateOf(held)?.streamedMs ?? 0) <= 2_000) {
      relay.send(picture(1));
      await relay.next();
      await delay(10);
    }
    await relay.close();
    const most = 1 + Math.floor((performance.now() - began) / 2_000);
    await until(() => watch.of(held)?.state === SessionState.SESSION_STATE_ENDED, 'told of the end');
    const seen = watch.messages
      .slice(from)
      .flatMap(({ sessions }) => sessions.filter((each) => each.sessionId === held));
    // The events are `streaming`, one or two of progress, and `ended`; there is more progress only if the loop took
    // longer.
    expect(seen.length).toBeGreaterThanOrEqual(3);
    expect(seen.length).toBeLessThanOrEqual(2 + most);
    expect(seen.at(-1)?.converted).toBe(seen.at(-1)?.received);
    expect(Number(seen.at(-1)?.streamedMs)).toBeGreaterThan(2_000);
    const other = rig.client.watchSessions({ incarnation: 'other' });
    const error = await new Promise((resolve) => other.on('error', resolve).resume());
    expect(error).toMatchObject({ code: status.FAILED_PRECONDITION });
    watch.cancel();
  });

  it('tells what the client did that the gateway closed it for', async () => {
    const id = await claim();
    const watch = rig.watch();
    await watch.first;
    const relay = rig.relay(id);
    await relay.ready;
    const fault = 'too_fast: more than 500 messages a second';
    await relay.close(EndReason.END_REASON_UNSPECIFIED, fault);
    await until(() => watch.of(id)?.state === SessionState.SESSION_STATE_ENDED, 'told of the end');
    expect(watch.of(id)).toMatchObject({ reason: EndReason.END_REASON_UNSPECIFIED, fault });
    watch.cancel();
  });
});
