import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { startTcpProxy } from '@semblance/testkit/common/tcp-proxy';
import { PICTURE_READY, VOICE_READY } from '@semblance/testkit/gateway/agent-double';
import { impatientRig } from '@semblance/testkit/gateway/impatient-rig';
import { CHUNK, frame, StreamClient, streamRig } from '@semblance/testkit/gateway/stream-rig';
import { afterEach, describe, expect, it } from 'vitest';

const rig = impatientRig();
/** A gateway with the usual patience, for clients that must not be dropped. */
const patient = streamRig();
afterEach(() => {
  patient.agent.ready = VOICE_READY;
  patient.agent.mode = 'echo';
});

/** Sends a chunk every 20 ms until it is stopped. */
function speak(client: StreamClient) {
  const sent: Buffer[] = [];
  const began = performance.now();
  const timer = setInterval(() => {
    // Sends as many as are due, because timers of a busy machine are late.
    while (sent.length * 20 < performance.now() - began && client.ws.readyState === client.ws.OPEN) {
      sent.push(randomBytes(1_920));
      client.ws.send(sent.at(-1) as Buffer);
    }
  }, 10);
  return {
    sent,
    stop() {
      clearInterval(timer);
      return Buffer.concat(sent);
    },
  };
}

describe('a client of which nothing is heard', () => {
  it('half open: neither data nor pongs: 4002, and what was streamed is reported', async () => {
    const { socket, id } = await rig.rawStream();
    socket.write(frame(CHUNK));
    socket.resume();
    let received = '';
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
    });
    const final = await rig.final(id);
    expect(final).toEqual({ streamedMs: 20, reason: 'timed_out' });
    await expect.poll(() => received).toContain('timed_out: nothing was heard');
    // It does not answer the close frame either, so it is cut off.
    await expect.poll(() => socket.destroyed, { timeout: 5_000 }).toBe(true);
  });

  it('idle: it answers pings and sends no media: 4002', async () => {
    const { client, id } = await rig.stream();
    expect(await client.end()).toMatchObject({ code: 4002, reason: 'timed_out: no media came for 0.9 s' });
    expect(await rig.final(id)).toEqual({ streamedMs: 0, reason: 'timed_out' });
  });

  it('empty messages are no media, media is', async () => {
    const { client } = await rig.stream();
    const timer = setInterval(() => client.ws.send(Buffer.alloc(0)), 50);
    expect((await client.end()).code).toBe(4002);
    clearInterval(timer);
    const other = await rig.stream();
    for (let i = 0; i < 6; i++) {
      other.client.ws.send(CHUNK);
      await delay(200);
    }
    expect(other.client.closed).toBeUndefined();
    other.client.ws.close();
  });

  it('a network that is away for three seconds: nothing is lost, and the session goes on', async () => {
    const proxy = await startTcpProxy({ port: patient.gateway.port });
    const url = new URL(patient.urlOf(await patient.open()));
    url.port = String(proxy.port);
    const client = await new StreamClient(url.href).ready();
    const speaking = speak(client);
    await delay(500);
    proxy.set('hang');
    await delay(3_000);
    proxy.set('open');
    await delay(500);
    const sent = speaking.stop();
    await expect.poll(() => Buffer.concat(client.media).equals(sent)).toBe(true);
    expect(client.closed).toBeUndefined();
    client.ws.close();
    await client.end();
    await proxy.close();
  });
});

describe('a client that reads too slowly', () => {
  /** One second each; no kernel buffer has room for all of them. */
  const FLOOD = Buffer.alloc(96_000, 5);

  it('voice: the agent is made to wait, and it is closed with 4002', async () => {
    const { relay, id, socket } = await rig.rawStream();
    let accepted = 0;
    const pour = () => {
      while (!relay.over && accepted < 600) {
        accepted++;
        const more = relay.call.write({
          response: { $case: 'media', value: { sequence: BigInt(accepted), data: FLOOD } },
        });
        if (!more) return relay.call.once('drain', pour);
      }
      return undefined;
    };
    pour();
    // It shows signs of life, so that silence does not end it.
    const alive = setInterval(() => socket.write(frame(CHUNK)), 100);
    const final = await rig.final(id);
    clearInterval(alive);
    expect(final.reason).toBe('timed_out');
    expect(accepted, 'ten minutes of sound were not taken').toBeLessThan(300);
    socket.destroy();
  });

  it('voice: one that answered pings before is found out by what it has not read, not by full buffers', async () => {
    const { client, id } = await rig.stream();
    const speaking = speak(client);
    await client.received(20);
    client.ws.pause();
    const pausedAt = performance.now();
    const final = await rig.final(id);
    const took = performance.now() - pausedAt;
    speaking.stop();
    expect(final.reason).toBe('timed_out');
    expect(took).toBeGreaterThan(2_000);
    // Judged by what was sent, because time is longer on a machine that stands still.
    const lines = rig.gateway.logLines.map((line) => JSON.parse(line) as { session?: string; sent?: number });
    const sent = lines.find(({ session, sent }) => session === id && sent !== undefined)?.sent ?? Number.NaN;
    expect(sent * 20, 'not billed for long').toBeLessThan(6_000);
    client.ws.terminate();
  });

  it('voice: one that reads again in time gets everything', async () => {
    const { client } = await patient.stream();
    const speaking = speak(client);
    await client.received(20);
    client.ws.pause();
    await delay(2_600);
    client.ws.resume();
    await delay(500);
    const sent = speaking.stop();
    await expect.poll(() => Buffer.concat(client.media).equals(sent)).toBe(true);
    expect(client.closed).toBeUndefined();
    client.ws.close();
  });

  it('voice: one that goes on speaking and reads again within ten seconds gets everything', async () => {
    const { client, id } = await patient.stream();
    const speaking = speak(client);
    await client.received(20);
    client.ws.pause();
    await delay(8_000);
    expect(patient.live.finalOf(id), 'it is not given up').toBeUndefined();
    client.ws.resume();
    await delay(500);
    const sent = speaking.stop();
    await expect.poll(() => Buffer.concat(client.media).equals(sent)).toBe(true);
    expect(client.closed).toBeUndefined();
    client.ws.close();
  });

  it('pictures: it gets the newest one, and few that are old', async () => {
    patient.agent.ready = PICTURE_READY;
    const { client, relay } = await patient.stream('full-live-swap');
    const picture = (n: number) => {
      const data = Buffer.alloc(30_000, 1);
      data.writeUInt32BE(n);
      return data;
    };
    // It has answered how far it has read, so it is judged by that from now on.
    const asked = once(client.ws, 'ping');
    relay.media(1n, picture(0));
    await asked;
    await client.heard();
    client.ws.pause();
    for (let i = 1; i <= 60; i++) {
      relay.media(BigInt(i + 1), picture(i));
      await delay(4);
    }
    client.ws.resume();
    await expect.poll(() => client.media.at(-1)?.readUInt32BE()).toBe(60);
    expect(client.media.length, 'a quarter of a second of pictures, and the newest').toBeLessThanOrEqual(10);
    client.ws.close();
    await expect.poll(() => patient.gateway.logLines.at(-1)).toMatch(/"dropped":5\d/);
  });
});

describe('an agent that does not answer', () => {
  it('voice: two seconds of sound are sent, the rest is left with the client, and all of it is answered later', async () => {
    patient.agent.mode = 'hold';
    const { client, relay } = await patient.stream();
    const sent: Buffer[] = [];
    const say = (count: number) => {
      for (let i = 0; i < count; i++) {
        sent.push(randomBytes(1_920));
        client.ws.send(sent.at(-1) as Buffer);
      }
    };
    say(100);
    await expect.poll(() => relay.waiting.length).toBe(100);
    for (let i = 0; i < 10; i++) {
      await delay(50);
      say(2);
    }
    expect(relay.waiting.length).toBeLessThanOrEqual(102);
    patient.agent.mode = 'echo';
    relay.answerAll();
    await client.received(120);
    expect(Buffer.concat(client.media).equals(Buffer.concat(sent))).toBe(true);
    client.ws.close();
  });

  it('for too long: 1011, and nothing is charged', async () => {
    rig.agent.mode = 'hold';
    const { client, id } = await rig.stream();
    for (let i = 0; i < 100; i++) client.ws.send(CHUNK);
    expect(await client.end()).toMatchObject({
      code: 1011,
      reason: 'render_failed: what converts the stream does not answer',
    });
    expect(await rig.final(id)).toEqual({ streamedMs: 0, reason: 'render_failed' });
  });
});
