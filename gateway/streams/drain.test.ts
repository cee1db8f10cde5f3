import { EndReason } from '@semblance/proto/semblance/live/v1/live';
import { CHUNK, StreamClient, streamRig } from '@semblance/testkit/gateway/stream-rig';
import { startTestGateway, type TestGateway } from '@semblance/testkit/gateway/test-gateway';
import { describe, expect, it } from 'vitest';

const rig = streamRig();
const noticed = (url: string) => new StreamClient(`${url}&notices=on`);

async function streaming(url: string, client = noticed(url)) {
  await client.ready();
  client.ws.send(CHUNK);
  await client.received(1);
  return client;
}

describe('an agent that is drained', () => {
  it('has the clients told that asked to be, and their sockets closed with 1001', async () => {
    const sessions = await Promise.all([rig.open(), rig.open()]);
    const [asked, silent] = await Promise.all([
      streaming(rig.urlOf(sessions[0])),
      streaming(rig.urlOf(sessions[1]), new StreamClient(rig.urlOf(sessions[1]))),
    ]);
    const relays = sessions.map(({ session_id }) => rig.agent.relayOf(session_id));
    for (const relay of relays) relay.ending(30);
    await expect
      .poll(() => asked.texts.slice(1).map((text) => JSON.parse(text)))
      .toEqual([{ type: 'ending', reason: 'agent_draining', in_seconds: 30 }]);
    // Media flows on.
    for (const client of [asked, silent]) {
      client.ws.send(CHUNK);
      await client.received(2);
    }
    const message = 'the agent is ending; open another session';
    for (const relay of relays) relay.ended(EndReason.END_REASON_CANCELLED, message, true);
    for (const client of [asked, silent])
      expect(await client.end()).toMatchObject({ code: 1001, reason: `going_away: ${message}` });
    // A client without notices gets one text frame, as in the first version of the API.
    expect(silent.texts).toHaveLength(1);
    for (const { session_id } of sessions) {
      const { streamedMs, reason } = await rig.final(session_id);
      expect(reason).toBe('cancelled');
      expect(streamedMs).toBeGreaterThanOrEqual(20);
    }
  });
});

describe('a gateway that is drained', () => {
  /** Starts a separate gateway with a session. */
  async function own(timing: { serveOn: number; liveDrain: number }) {
    const gateway = await startTestGateway({ timing });
    gateway.control.live.grant = { ...rig.live.grant, agentAddress: rig.agent.address };
    return { gateway, open: () => openAt(gateway) };
  }
  async function openAt({ base, auth, port }: TestGateway) {
    const response = await fetch(`${base}/voice/session`, { method: 'POST', headers: auth });
    expect(response.status).toBe(200);
    const { session_id = '', session_token } = (await response.json()) as Record<string, string>;
    return {
      id: session_id,
      url: `ws://127.0.0.1:${port}/streams/${session_id}?session_token=${session_token}`,
    };
  }

  it('is not ready from then on, serves on, and then ends', async () => {
    const { gateway, open } = await own({ serveOn: 8_000, liveDrain: 0 });
    await gateway.gateway.ready();
    const closing = gateway.gateway.close();
    await expect(gateway.gateway.ready()).rejects.toThrow('the gateway is ending');
    const { id, url } = await open();
    const client = await streaming(url);
    const answer = await fetch(`${gateway.base}/balance`, { headers: gateway.auth });
    expect([answer.status, answer.headers.get('connection')]).toEqual([200, 'close']);
    await closing;
    const text = 'going_away: the gateway is ending; open another session';
    expect(await client.end()).toMatchObject({ code: 1001, reason: text });
    expect(gateway.control.live.finalOf(id)).toMatchObject({ streamedMs: 20n, reason: 'cancelled' });
    await expect(fetch(`${gateway.base}/balance`, { headers: gateway.auth })).rejects.toThrow();
    await gateway.close();
  });

  it('tells its live sessions, takes no more, and is done when the last has ended', async () => {
    const { gateway, open } = await own({ serveOn: 0, liveDrain: 600_000 });
    const [first, second] = await Promise.all([open(), open()]);
    const client = await streaming(first.url);
    const closing = gateway.gateway.close();
    await expect.poll(() => client.texts.length).toBe(2);
    expect(JSON.parse(client.texts[1] ?? '')).toEqual({
      type: 'ending',
      reason: 'gateway_draining',
      in_seconds: 600,
    });
    const refused = new StreamClient(second.url);
    expect((await refused.end()).code).toBe(1006);
    // It was not admitted, so it can connect elsewhere.
    expect(gateway.control.live.finalOf(second.id)).toBeUndefined();
    client.ws.send(CHUNK);
    await client.received(2);
    client.ws.close(1000);
    await closing;
    expect(gateway.control.live.finalOf(first.id)?.reason).toBeUndefined();
    await gateway.close();
  });
});
