import { setImmediate as turn } from 'node:timers/promises';
import { BadMessageError, type Delivery } from '@semblance/engine-api/live-engine';
import { describe, expect, it } from 'vitest';
import { createPump, type PumpOptions } from './pump.ts';

/** Creates a pump whose conversions and sends end when the test says so. */
function rig(delivery: Delivery, maxMessageBytes = 1_000) {
  const log: string[] = [];
  const conversions: { end: (out?: Uint8Array) => void; fail: (error: unknown) => void; data: Uint8Array }[] =
    [];
  const sends: { sequence: bigint; end: () => void }[] = [];
  const counts = { received: 0, dropped: 0, converted: 0 };
  const refused: bigint[] = [];
  const failures: unknown[] = [];
  const transform = (data: Uint8Array) =>
    new Promise<Uint8Array>((resolve, reject) => {
      conversions.push({ data, end: (out = data) => resolve(out), fail: reject });
    });
  const options: PumpOptions = {
    delivery,
    maxMessageBytes,
    send: (sequence) => new Promise((resolve) => sends.push({ sequence, end: resolve })),
    refuse: async (sequence) => void refused.push(sequence),
    pause: () => log.push('pause'),
    resume: () => log.push('resume'),
    onReceived: () => counts.received++,
    onDropped: () => counts.dropped++,
    onConverted: () => counts.converted++,
    onFailed: (error) => failures.push(error),
  };
  const pump = createPump({ transform }, options);
  let sequence = 0n;
  return {
    pump,
    log,
    conversions,
    sends,
    refused,
    counts,
    failures,
    push: (length = 10) => pump.push(++sequence, new Uint8Array(length)),
    /** Converts and sends until nothing is waiting. */
    async runDry() {
      for (;;) {
        const [conversion, send] = [conversions.shift(), sends.shift()];
        if (!conversion && !send) return;
        conversion?.end();
        send?.end();
        await turn();
      }
    },
  };
}

describe('every message', () => {
  it('is converted one at a time, in order, and the next when the transport has taken the one before', async () => {
    const { push, conversions, sends, counts } = rig('every');
    push();
    push();
    expect(conversions).toHaveLength(1);
    conversions[0]?.end();
    await turn();
    expect(conversions).toHaveLength(1);
    expect(sends.map(({ sequence }) => sequence)).toEqual([1n]);
    sends[0]?.end();
    await turn();
    expect(conversions).toHaveLength(2);
    conversions[1]?.end();
    await turn();
    expect(sends.map(({ sequence }) => sequence)).toEqual([1n, 2n]);
    expect(counts).toEqual({ received: 2, dropped: 0, converted: 1 });
  });

  it('makes the sender wait when eight wait, or 256 KiB, and lets it go on at half', async () => {
    const { push, log, runDry, counts } = rig('every');
    for (let k = 0; k < 9; k++) push();
    expect(log).toEqual(['pause']);
    await runDry();
    expect(log).toEqual(['pause', 'resume']);
    expect(counts).toEqual({ received: 9, dropped: 0, converted: 9 });
    const large = rig('every', 128 * 1024);
    // The first message is being converted, so it does not wait.
    for (const log of [[], [], ['pause']]) {
      large.push(128 * 1024);
      expect(large.log).toEqual(log);
    }
    await large.runDry();
    expect(large.log).toEqual(['pause', 'resume']);
  });
});

describe('the newest message', () => {
  it('is converted next; those before it are thrown away and counted, and the sender never waits', async () => {
    const { push, log, runDry, conversions, sends, counts } = rig('newest');
    for (let k = 0; k < 100; k++) push();
    conversions[0]?.end();
    await turn();
    sends[0]?.end();
    await turn();
    expect(counts).toEqual({ received: 100, dropped: 98, converted: 1 });
    conversions[1]?.end();
    await turn();
    expect(sends.map(({ sequence }) => sequence)).toEqual([1n, 100n]);
    await runDry();
    expect(log).toEqual([]);
  });

  it('waits for a slow reader, and then the newest of all goes out', async () => {
    const { push, conversions, sends, counts } = rig('newest');
    push();
    conversions[0]?.end();
    await turn();
    for (let k = 0; k < 50; k++) push();
    expect(conversions).toHaveLength(1);
    sends[0]?.end();
    await turn();
    conversions[1]?.end();
    await turn();
    expect(sends[1]?.sequence).toBe(51n);
    expect(counts.dropped).toBe(49);
  });
});

describe.each(['every', 'newest'] as const)('delivery of %s', (delivery) => {
  it('goes on after a message that is none, which is told, and drops what is empty or too large', async () => {
    const { push, conversions, sends, refused, counts, failures } = rig(delivery);
    push(0);
    push(1_001);
    push();
    conversions[0]?.fail(new BadMessageError('no picture'));
    await turn();
    push();
    conversions[1]?.end();
    await turn();
    expect(sends.map(({ sequence }) => sequence)).toEqual([4n]);
    expect(refused).toEqual([3n]);
    expect(counts).toMatchObject({ received: 4, dropped: 3 });
    expect(failures).toEqual([]);
  });

  it('ends with the first fault, and is silent from then on', async () => {
    const { push, conversions, counts, failures } = rig(delivery);
    push();
    push();
    const fault = new Error('thread ended');
    conversions[0]?.fail(fault);
    await turn();
    push();
    expect(failures).toEqual([fault]);
    expect(conversions).toHaveLength(1);
    expect(counts).toMatchObject({ received: 2, converted: 0 });
  });

  it('sends and tells nothing once it is stopped', async () => {
    const { push, pump, conversions, sends, counts, failures } = rig(delivery);
    push();
    pump.stop();
    conversions[0]?.end();
    await turn();
    expect(sends).toEqual([]);
    push();
    pump.stop();
    expect(counts).toEqual({ received: 1, dropped: 0, converted: 0 });
    expect(failures).toEqual([]);
  });
});
