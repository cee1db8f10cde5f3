import { setImmediate as turn } from 'node:timers/promises';
import type { Delivery, FlowListener, LiveFlow } from '@semblance/engine-api/live-engine';
import { describe, expect, it } from 'vitest';
import { createFlowPump } from './flow-pump.ts';

/** Creates a pump whose flow has room, and whose sends end, when the test says so. */
function rig(delivery: Delivery) {
  const log: string[] = [];
  const given: bigint[] = [];
  const sends: { sequence: bigint; end: () => void }[] = [];
  const delays: (number | undefined)[] = [];
  const counts = { received: 0, dropped: 0 };
  const state = { room: 1, listener: undefined as FlowListener | undefined };
  const flow: LiveFlow = {
    firstFrame: '{}',
    format: { kind: 'voice', sampleRate: 48_000, chunkFrames: 960 },
    maxMessageBytes: 1_000,
    close: async () => {},
    get hasRoom() {
      return state.room > 0;
    },
    listen(listener) {
      state.listener = listener;
    },
    push(sequence) {
      state.room--;
      given.push(sequence);
    },
    pause: () => log.push('pause flow'),
    resume: () => log.push('resume flow'),
  };
  const pump = createFlowPump(flow, {
    delivery,
    maxMessageBytes: 1_000,
    send: (sequence) => new Promise((resolve) => sends.push({ sequence, end: resolve })),
    refuse: async (sequence) => void log.push(`refuse ${sequence}`),
    pause: () => log.push('pause'),
    resume: () => log.push('resume'),
    onReceived: () => counts.received++,
    onDropped: () => counts.dropped++,
    onConverted: (ms) => delays.push(ms),
    onFailed: () => log.push('failed'),
  });
  let sequence = 0n;
  return {
    pump,
    log,
    given,
    sends,
    delays,
    counts,
    push: () => pump.push(++sequence, new Uint8Array(10)),
    answer: (of: bigint) => state.listener?.converted(of, new Uint8Array(10)),
    refuse: (of: bigint) => state.listener?.unreadable(of),
    room(places: number) {
      state.room = places;
      state.listener?.room();
    },
    async sent() {
      sends.shift()?.end();
      await turn();
    },
  };
}

describe('sound', () => {
  it('waits while the flow has no room, and stops its sender at eight messages', () => {
    const { push, given, log, room, counts } = rig('every');
    for (let k = 0; k < 9; k++) push();
    expect([given, log]).toEqual([[1n], ['pause']]);
    room(5);
    expect(given).toEqual([1n, 2n, 3n, 4n, 5n, 6n]);
    expect(log).toEqual(['pause', 'resume']);
    expect(counts).toEqual({ received: 9, dropped: 0 });
  });

  it('stops the flow while eight answers wait for the transport, and loses none', async () => {
    const { push, room, answer, refuse, sends, log, sent } = rig('every');
    room(10);
    for (let k = 0; k < 10; k++) push();
    for (let k = 1n; k <= 9n; k++) answer(k);
    refuse(10n);
    expect(log).toEqual(['pause flow']);
    const order: bigint[] = [];
    while (sends[0]) {
      order.push(sends[0].sequence);
      await sent();
    }
    expect(order).toEqual([1n, 2n, 3n, 4n, 5n, 6n, 7n, 8n, 9n]);
    expect(log).toEqual(['pause flow', 'resume flow', 'refuse 10']);
  });
});

describe('pictures', () => {
  it('that newer ones overtake are dropped, before the flow and after it', async () => {
    const { push, room, given, answer, sends, counts, sent, delays } = rig('newest');
    for (let k = 0; k < 5; k++) push();
    expect([given, counts.dropped]).toEqual([[1n], 3]);
    room(1);
    expect(given).toEqual([1n, 5n]);
    answer(1n);
    for (let k = 0; k < 3; k++) answer(5n);
    expect(counts.dropped).toBe(5);
    await sent();
    await sent();
    expect(sends).toEqual([]);
    // Both have a time of arrival, which the second answer to a message would not have.
    expect(delays.map((ms) => typeof ms)).toEqual(['number', 'number']);
    answer(5n);
    await sent();
    expect(delays[2]).toBeUndefined();
  });

  it('of a pump that was stopped go nowhere', async () => {
    const { pump, push, given, answer, sends, counts, log } = rig('newest');
    push();
    pump.stop();
    push();
    answer(1n);
    await turn();
    expect([given, sends, counts.received, log]).toEqual([[1n], [], 1, []]);
  });
});
