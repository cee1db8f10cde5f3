import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { impatientRig, resources } from '@semblance/testkit/gateway/impatient-rig';
import { CHUNK, StreamClient, streamRig } from '@semblance/testkit/gateway/stream-rig';
import { startTestGateway } from '@semblance/testkit/gateway/test-gateway';
import { describe, expect, it } from 'vitest';

const rig = impatientRig();
/** A gateway that does not drop clients on a slow machine. */
const patient = streamRig();

describe('the control plane', () => {
  it('is away when sessions end: they are told it once it is back', async () => {
    const { gateway } = patient;
    const { client, id } = await patient.stream();
    client.ws.send(CHUNK);
    await client.received(1);
    const { port } = gateway.control;
    await gateway.control.close();
    client.ws.close();
    await client.end();
    expect(gateway.gateway.live.reporter.owed).toBe(1);
    await delay(500);
    await gateway.control.start(port);
    expect(await patient.final(id)).toEqual({ streamedMs: 20, reason: undefined });
    await expect.poll(() => gateway.gateway.live.reporter.owed).toBe(0);
  });

  it('away for a while: streams go on', async () => {
    const { client } = await patient.stream();
    const { port } = patient.gateway.control;
    await patient.gateway.control.close();
    for (let i = 1; i <= 5; i++) {
      client.ws.send(CHUNK);
      await client.received(i);
      await delay(100);
    }
    await patient.gateway.control.start(port);
    client.ws.close();
    const served = async () =>
      (await fetch(`${patient.gateway.base}/balance`, { headers: patient.gateway.auth })).status;
    await expect.poll(served).toBe(200);
  });
});

describe('the gateway ends', () => {
  it('closes its sockets with 1001, tells what they came to, and takes no more', async () => {
    const own = await startTestGateway();
    own.control.live.grant = { ...rig.live.grant, agentAddress: rig.agent.address };
    const open = async () => {
      const response = await fetch(`${own.base}/voice/session`, { method: 'POST', headers: own.auth });
      const { session_id = '', session_token } = (await response.json()) as Record<string, string>;
      return {
        session_id,
        url: `ws://127.0.0.1:${own.port}/streams/${session_id}?session_token=${session_token}`,
      };
    };
    const sessions = await Promise.all([open(), open(), open()]);
    const clients = await Promise.all(sessions.map(({ url }) => new StreamClient(url).ready()));
    for (const client of clients) {
      client.ws.send(CHUNK);
      await client.received(1);
    }
    await own.gateway.close();
    for (const [i, client] of clients.entries()) {
      expect(await client.end()).toMatchObject({
        code: 1001,
        reason: 'going_away: the gateway is ending; open another session',
      });
      const final = own.control.live.finalOf(sessions[i]?.session_id ?? '');
      expect(final).toMatchObject({ streamedMs: 20n, reason: 'cancelled' });
    }
    await expect.poll(() => rig.agent.relays.slice(-3).every(({ over }) => over)).toBe(true);
    await own.close();
  });
});

describe('a thousand sessions opened and closed', () => {
  it('leave no socket, timer or memory', async () => {
    patient.agent.keep = false;
    await cycle(100);
    // Counted inside a poll, as later, because a poll has a timer of its own.
    let resourcesBefore = 0;
    await expect
      .poll(() => {
        resourcesBefore = resources();
        return true;
      })
      .toBe(true);
    const before = { resources: resourcesBefore, heap: heapBytes() };
    for (let round = 0; round < 5; round++) await cycle(200);
    await expect.poll(() => patient.gateway.gateway.live.size).toBe(0);
    await expect.poll(() => patient.gateway.gateway.live.reporter.owed).toBe(0);
    await expect.poll(resources).toBeLessThanOrEqual(before.resources);
    expect(patient.gateway.gateway.live.agents.size).toBe(1);
    expect(heapBytes() - before.heap, 'less than two kilobytes for each').toBeLessThan(2_000_000);
  });

  /** Runs `count` sessions, twenty at a time, with every kind of ending. */
  async function cycle(count: number): Promise<void> {
    for (let n = 0; n < count; n += 20) {
      const streams = await Promise.all(Array.from({ length: 20 }, () => patient.stream()));
      await Promise.all(
        streams.map(async ({ client, relay }, i) => {
          client.ws.send(CHUNK);
          await client.received(1);
          if (i % 4 === 0) client.ws.close();
          else if (i % 4 === 1) client.ws.terminate();
          else if (i % 4 === 2) relay.break();
          else client.ws.send('text');
          await client.end();
        }),
      );
    }
    await expect.poll(() => patient.gateway.gateway.live.size).toBe(0);
    // The doubles keep their own records.
    patient.agent.relays.length = 0;
    patient.live.sessions.clear();
    patient.live.messages.length = 0;
    patient.gateway.control.calls.length = 0;
    patient.gateway.logLines.length = 0;
  }
});

function heapBytes(): number {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
  collect();
  return process.memoryUsage().heapUsed;
}
