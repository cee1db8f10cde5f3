import { setTimeout as delay } from 'node:timers/promises';
import { impatientRig } from '@semblance/testkit/gateway/impatient-rig';
import { CHUNK, say, streamRig } from '@semblance/testkit/gateway/stream-rig';
import { describe, expect, it } from 'vitest';

describe('what a client said while the gateway stood still', () => {
  let now = 50_000;
  const clock = () => now;
  const rig = streamRig({ liveStreams: { clock, tickMs: 20 } });
  /** Here the gateway checks its streams only after it has read the messages that arrived meanwhile. */
  const late = streamRig({ liveStreams: { clock, tickMs: 2_000 } });

  it.each([
    ['before', rig],
    ['after', late],
  ])('is taken, whether the gateway looks %s it is read', async (when, { stream }) => {
    const { client } = await stream();
    client.ws.send(CHUNK);
    await client.received(1);
    now += 14_000;
    if (when === 'before') await delay(200);
    const sent = say(client, 12_000);
    await client.received(1 + sent.length);
    expect(client.closed).toBeUndefined();
    client.ws.close();
  });

  it('is no more than came due in that time', async () => {
    const { client } = await rig.stream();
    client.ws.send(CHUNK);
    await client.received(1);
    now += 9_000;
    await delay(200);
    say(client, 12_000);
    expect(await client.end()).toMatchObject({ code: 1008 });
  });

  it('one that was not there then has what any other begins with', async () => {
    const { client } = await late.stream();
    now += 14_000;
    const other = await late.stream();
    say(other.client, 2_500);
    expect(await other.client.end()).toMatchObject({ code: 1008 });
    client.ws.close();
  });
});

describe('a gateway that judges silence', () => {
  const rig = impatientRig();

  it('what came while this process stood still is read before it is judged', async () => {
    const { client } = await rig.stream();
    client.ws.send(CHUNK);
    await client.received(1);
    client.ws.send(CHUNK);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000);
    await client.received(2);
    expect(client.closed).toBeUndefined();
    client.ws.close();
  });
});
