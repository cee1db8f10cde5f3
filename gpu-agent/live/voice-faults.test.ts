import { setTimeout as delay } from 'node:timers/promises';
import { silentLogger } from '@semblance/common/logging';
import { EndReason } from '@semblance/proto/semblance/live/v1/live';
import { ENDS, HANGS } from '@semblance/testkit/live/breaking-samples';
import { type LiveRig, startLiveRig } from '@semblance/testkit/live/live-rig';
import { bytesInUse } from '@semblance/testkit/live/memory';
import { TONE_MODEL, toneModels } from '@semblance/testkit/live/tone-models';
import { shippedVoice } from '@semblance/testkit/live/voices';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createVoiceEngine, STREAMS_PER_THREAD, type VoiceEngine } from './engines/voice/voice-engine.ts';

/** Sample rate in Hz: a sixth of the usual one, so that ten minutes are converted faster. */
const RATE = 8_000;
let voice: string;
/** Definition of a voice with a model, as JSON. */
let modelled: string;
let rig: LiveRig;
let engine: VoiceEngine;
const log: string[] = [];
let crashes = 0;

beforeAll(async () => {
  voice = (await shippedVoice('calm-alto')).json;
  modelled = JSON.stringify({ ...JSON.parse(voice), model: TONE_MODEL });
  engine = createVoiceEngine({
    // The sessions fill more than one thread.
    slots: STREAMS_PER_THREAD + 2,
    sampleRate: RATE,
    chunkFrames: RATE / 50,
    logger: silentLogger(),
    onChange: () => log.push(`${engine.slots} ${engine.warming}`),
    onCrash: () => crashes++,
    openModels: async () => toneModels(),
    threads: {
      entry: new URL('../../packages/testkit/live/breaking-voice-thread.ts', import.meta.url),
      hungMs: 1_000,
      restartDelayMs: () => 50,
    },
  });
  rig = await startLiveRig({ engines: [engine] });
  expect(rig.live.statement).toEqual([{ name: 'voice', slots: 0, warming: true }]);
  await rig.warm();
});
afterAll(() => rig.close());

const chunkOf = (first: number, samples = RATE / 50) => {
  const chunk = Int16Array.from({ length: samples }, (_, i) => 3_000 * Math.sin(i / 20));
  chunk[0] = first;
  return new Uint8Array(chunk.buffer);
};
async function streaming() {
  const id = await rig.claim({ settings: { voice: modelled } });
  const relay = rig.relay(id);
  await relay.ready;
  relay.send(chunkOf(0));
  await relay.next();
  return { id, relay };
}

describe('threads', () => {
  it('are announced once they are warm, and not before', () => {
    expect(log).toEqual(['0 true', `${STREAMS_PER_THREAD / 2 + 1} true`, `${STREAMS_PER_THREAD + 2} false`]);
  });

  it.each([
    ['ends', ENDS],
    ['hangs', HANGS],
  ])('one that %s fails its own sessions at once and no others, and is replaced', async (_how, sample) => {
    const [first, second, third, through] = [
      await streaming(),
      await streaming(),
      await streaming(),
      rig.relay(await rig.claim()),
    ];
    await through.ready;
    const threads = engine.threadIds;
    crashes = 0;
    // A stream goes to the thread with the fewest streams, so the first and the third share a thread.
    first.relay.send(chunkOf(sample));
    await Promise.all([first.relay.over, third.relay.over]);
    for (const { id, relay } of [first, third]) {
      expect(relay.ended()?.reason).toBe(EndReason.END_REASON_RENDER_FAILED);
      expect(rig.live.sessions.get(id)).toMatchObject({ state: 'ended', end: { reason: 'render_failed' } });
    }
    for (const relay of [second.relay, through]) {
      relay.send(chunkOf(1));
      expect((await relay.next()).data).toHaveLength(RATE / 25);
    }
    expect(crashes).toBe(1);
    await rig.warm();
    expect(engine.slots).toBe(STREAMS_PER_THREAD + 2);
    expect(engine.threadIds.filter((id) => threads.includes(id))).toHaveLength(1);
    const next = await streaming();
    for (const { relay } of [next, second, { relay: through }]) await relay.close();
    expect(engine.streams).toBe(0);
  });
});

describe('a sender that does not read', () => {
  it('is made to wait, with little held here, and loses nothing', async () => {
    const id = await rig.claim({ settings: { voice } });
    const relay = rig.relay(id);
    await relay.ready;
    relay.call.pause();
    const chunk = chunkOf(0, RATE / 2);
    let sent = 0;
    // The loop ends when the transport has been full for half a second.
    for (let full = false; !full && sent < 2_000; ) {
      full = !relay.send(chunk);
      sent++;
      if (!full) continue;
      await Promise.race([
        new Promise<void>((resolve) => relay.call.once('drain', resolve)),
        delay(500),
      ]).then(() => {
        full = relay.call.writableNeedDrain;
      });
    }
    expect(sent).toBeLessThan(200);
    const held = rig.live.sessions.get(id);
    // The agent holds eight waiting messages, one in conversion, and those in the transport.
    expect((held?.received ?? 0) - (held?.converted ?? 0)).toBeLessThan(32);
    relay.call.resume();
    for (let sequence = 1n; sequence <= sent; sequence++) {
      const { sequence: got, data } = await relay.next();
      expect(got).toBe(sequence);
      expect(data).toHaveLength(chunk.length);
    }
    await relay.close();
    expect(rig.live.sessions.get(id)).toMatchObject({ received: sent, converted: sent, dropped: 0 });
  });
});

describe('ten minutes of sound', () => {
  it.each([
    ['passes through', false],
    ['is converted', true],
  ])('that %s comes back whole, in order, with no memory kept', async (_how, converts) => {
    const relay = rig.relay(await rig.claim(converts ? { settings: { voice } } : {}));
    await relay.ready;
    const chunk = chunkOf(0, RATE / 10);
    const count = 6_000;
    let [sent, got, early] = [0, 0, 0];
    while (got < count) {
      for (; sent < count && sent - got < 20; sent++) relay.send(chunk);
      const { sequence, data } = await relay.next();
      got++;
      if (sequence !== BigInt(got) || data.length !== chunk.length)
        throw new Error(`message ${got} is another`);
      if (!converts && !data.equals(chunk)) throw new Error(`message ${got} has other samples`);
      if (got === count / 10) early = await bytesInUse();
    }
    expect((await bytesInUse()) - early).toBeLessThan(2 * 1024 * 1024);
    await relay.close();
  });
});
