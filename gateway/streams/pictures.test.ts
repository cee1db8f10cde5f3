import { setTimeout as delay } from 'node:timers/promises';
import { PICTURE_READY, PICTURES, VOICE_READY } from '@semblance/testkit/gateway/agent-double';
import { CHUNK, jpegOf, streamRig } from '@semblance/testkit/gateway/stream-rig';
import { tokenRig } from '@semblance/testkit/gateway/token-rig';
import { beforeEach, describe, expect, it } from 'vitest';

const rig = tokenRig();
/** Its clock stands still, so only the test's own messages end a stream. */
const still = streamRig({ liveStreams: { clock: () => 50_000 } });
beforeEach(() => {
  for (const { agent } of [rig, still]) Object.assign(agent, { ready: PICTURE_READY, mode: 'echo' });
});

describe('a Live Swap Pro stream', () => {
  it('begins with its format; then pictures, bit for bit', async () => {
    const { client, id } = await rig.stream('full-live-swap');
    expect(client.texts).toEqual([PICTURE_READY.firstFrame]);
    const sent: Buffer[] = [];
    for (let i = 1; i <= 5; i++) {
      sent.push(jpegOf(640, 480, i === 3 ? 1_000_000 : 20_000));
      client.ws.send(sent.at(-1) as Buffer);
      await client.received(i);
    }
    expect(Buffer.concat(client.media).equals(Buffer.concat(sent))).toBe(true);
    client.ws.close();
    expect((await rig.final(id)).streamedMs, 'a picture lasts 40 ms').toBeGreaterThanOrEqual(40);
  });

  it('pictures that are sent at once are billed for the time that it took', async () => {
    const { client, id } = await still.stream('full-live-swap');
    for (let i = 1; i <= 10; i++) {
      client.ws.send(jpegOf());
      await client.received(i);
    }
    client.ws.close();
    expect(await still.final(id)).toEqual({ streamedMs: 40, reason: undefined });
  });

  it.each<[string, string | Buffer, number]>([
    ['a text', '{}', 1003],
    ['what is no picture', Buffer.from('GIF89a'), 1007],
    [
      'what begins as a picture and says no size',
      Buffer.from([0xff, 0xd8, 0xff, 0xe0, 0, 16, 1, 2, 3]),
      1007,
    ],
    ['more bytes than the agent takes', Buffer.alloc(4 * 1024 * 1024), 1009],
  ])('%s closes it', async (_name, message, code) => {
    const { client } = await rig.stream('full-live-swap');
    client.ws.send(message);
    expect((await client.end()).code).toBe(code);
  });

  it('an agent that is slow gets the newest picture, and old ones are dropped', async () => {
    rig.agent.ready = {
      ...PICTURE_READY,
      format: { $case: 'picture', value: { ...PICTURES, fps: 5 } },
    };
    rig.agent.mode = 'hold';
    const { client, relay } = await rig.stream('full-live-swap');
    // Ten may be at the agent; of the others only the newest waits.
    const sent: Buffer[] = [];
    for (let i = 0; i < 14; i++) {
      sent.push(jpegOf());
      client.ws.send(sent[i] as Buffer);
      // Not faster than pictures may come.
      await delay(150);
      if (i < 10) await expect.poll(() => relay.received.length).toBe(i + 1);
    }
    await client.heard();
    expect(relay.received).toHaveLength(10);
    relay.answerAll();
    await expect.poll(() => relay.received.length).toBe(11);
    expect(relay.received.at(-1)?.equals(sent[13] as Buffer)).toBe(true);
    client.ws.close();
    await expect.poll(() => rig.gateway.logLines.at(-1)).toContain('"dropped":3');
  });
});

describe('a picture of more pixels than the agent takes', () => {
  it.each([
    [1_920, 1_080],
    [1_281, 16],
    [16, 1_281],
    [960, 961],
    [65_535, 65_535],
  ])('closes it with 1007, whoever reads the reason knows why: %i × %i', async (width, height) => {
    const { client, relay, id } = await rig.stream('full-live-swap');
    client.ws.send(jpegOf(width, height));
    expect(await client.end()).toMatchObject({
      code: 1007,
      reason: `invalid_payload: a picture has ${width} × ${height} pixels; at most 1280 a side and 921600 in all are taken`,
    });
    expect(relay.received).toEqual([]);
    await expect.poll(() => relay.fault).toContain(`${width} × ${height} pixels`);
    expect((await rig.final(id)).reason, 'the caller ended it').toBeUndefined();
  });

  it('is taken on either side of the limit, and by an agent that told none', async () => {
    const { client } = await rig.stream('full-live-swap');
    client.ws.send(jpegOf(1_280, 720));
    client.ws.send(jpegOf(720, 1_280));
    await client.received(2);
    client.ws.close();
    rig.agent.ready = {
      ...PICTURE_READY,
      format: { $case: 'picture', value: { ...PICTURES, maxSide: 0, maxPixels: 0 } },
    };
    const before = await rig.stream('full-live-swap');
    before.client.ws.send(jpegOf(4_000, 3_000));
    await before.client.received(1);
    before.client.ws.close();
  });
});

describe('messages that the agent cannot read', () => {
  it.each(['full-live-swap', 'voice'] as const)(
    'fifty in a row close it with 1007: %s',
    async (capability) => {
      if (capability === 'voice') still.agent.ready = VOICE_READY;
      still.agent.mode = 'refuse';
      const { client, id } = await still.stream(capability);
      const message = capability === 'voice' ? CHUNK : jpegOf();
      for (let n = 0; n < 49; n++) {
        client.ws.send(message);
        await client.heard();
      }
      expect(client.closed).toBeUndefined();
      client.ws.send(message);
      expect(await client.end()).toMatchObject({
        code: 1007,
        reason: 'invalid_payload: 50 messages in a row could not be read',
      });
      expect(await still.final(id)).toEqual({ streamedMs: 0, reason: undefined });
      await expect.poll(() => still.gateway.logLines.at(-1)).toContain('"unreadable":50');
    },
  );

  it('some among others do nothing, and are not taken for an agent that hangs', async () => {
    rig.agent.ready = {
      ...PICTURE_READY,
      // At five pictures a second, ten may be unanswered.
      format: { $case: 'picture', value: { ...PICTURES, fps: 5 } },
    };
    const { client, relay } = await rig.stream('full-live-swap');
    rig.agent.mode = 'refuse';
    for (let n = 1; n <= 14; n++) {
      client.ws.send(jpegOf());
      await expect.poll(() => relay.received.length).toBe(n);
      // Not faster than pictures may come.
      await delay(150);
    }
    rig.agent.mode = 'echo';
    client.ws.send(jpegOf());
    await client.received(1);
    expect(client.closed).toBeUndefined();
    client.ws.close();
    await expect.poll(() => rig.gateway.logLines.at(-1)).toContain('"unreadable":14');
  });
});
