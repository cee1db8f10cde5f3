import { VOICE_READY } from '@semblance/testkit/gateway/agent-double';
import { say, streamRig } from '@semblance/testkit/gateway/stream-rig';
import { afterEach, describe, expect, it } from 'vitest';

describe('what a client said while its network was away', () => {
  let now = 50_000;
  const rig = streamRig({ liveStreams: { clock: () => now, tickMs: 3_600_000 } });

  async function away(ms: number) {
    const { client } = await rig.stream();
    const sent = say(client, 20, { piece: 10 });
    await client.received(sent.length);
    now += ms;
    return { client, sent };
  }

  it('is answered in full, for as long as a client that is not heard is waited for', async () => {
    const { client, sent } = await away(19_900);
    say(client, 19_900, { sent, piece: 10 });
    await client.received(sent.length);
    expect(Buffer.concat(client.media).equals(Buffer.concat(sent))).toBe(true);
    client.ws.close();
  });

  it('is no more than that', async () => {
    const { client } = await away(60_000);
    say(client, 20_500, { piece: 20 });
    expect(await client.end()).toMatchObject({ code: 1008 });
  });
});

describe('what a client said while its agent did not answer', () => {
  let now = 50_000;
  // The gateway does not check its streams, so no other limit ends them.
  const rig = streamRig({ liveStreams: { clock: () => now, tickMs: 3_600_000 } });
  afterEach(() => {
    rig.agent.ready = VOICE_READY;
    rig.agent.mode = 'echo';
  });

  /**
   * Returns a client that was silent for long, and whose socket is not read now, because two seconds of its sound
   * are unanswered.
   */
  async function stalled(ms: number) {
    rig.agent.mode = 'hold';
    const streaming = await rig.stream();
    const sent = say(streaming.client, 20, { piece: 20 });
    await expect.poll(() => streaming.relay.waiting.length).toBe(1);
    now += 60_000;
    say(streaming.client, 1_980, { sent, piece: 20 });
    await expect.poll(() => streaming.relay.waiting.length).toBe(100);
    now += ms;
    return { ...streaming, sent };
  }

  it('is read and answered once it does, though it is more than a network may be away', async () => {
    const { client, relay, sent } = await stalled(9_500);
    say(client, 27_500, { sent, piece: 20 });
    rig.agent.mode = 'echo';
    relay.answerAll();
    await client.received(sent.length);
    expect(Buffer.concat(client.media).equals(Buffer.concat(sent))).toBe(true);
    expect(client.closed).toBeUndefined();
    client.ws.close();
  });

  it('is all that it may have said: a second more is too fast', async () => {
    const { client, relay, sent } = await stalled(9_500);
    say(client, 28_500, { sent, piece: 20 });
    rig.agent.mode = 'echo';
    relay.answerAll();
    expect(await client.end()).toMatchObject({ code: 1008 });
  });
});
