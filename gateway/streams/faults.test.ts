import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { startTcpProxy } from '#common/testing/tcp-proxy.ts';
import { PICTURE_READY, VOICE_READY } from '../testing/agent-double.ts';
import { CHUNK, frame, StreamClient, streamRig, upgradeHead } from '../testing/stream-rig.ts';
import { startTestGateway } from '../testing/test-gateway.ts';

const pace = { ping: 100, silence: 800, idle: 900, stuck: 1_200 };
const rig = streamRig({ liveStreams: { pace, tickMs: 20, closeMs: 300 } });

afterEach(async () => {
  rig.agent.ready = VOICE_READY;
  rig.agent.mode = 'echo';
  rig.agent.keep = true;
  rig.live.grant = { ...rig.live.grant, agentAddress: rig.agent.address };
  await expect.poll(() => rig.gateway.gateway.live.size).toBe(0);
});

/** Sends a chunk every 20 ms, as one that speaks does, until it is stopped. */
function speak(client: StreamClient) {
  const sent: Buffer[] = [];
  const began = performance.now();
  const timer = setInterval(() => {
    // As many as are due: timers of a busy machine are late.
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
    // It answers no close frame either, and is cut off.
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
    const patient = await startTestGateway();
    patient.control.live.grant = { ...rig.live.grant, agentAddress: rig.agent.address };
    const proxy = await startTcpProxy({ port: patient.port });
    const opened = await fetch(`${patient.base}/voice/session`, { method: 'POST', headers: patient.auth });
    const { session_id, session_token } = (await opened.json()) as Record<string, string>;
    const url = `ws://127.0.0.1:${proxy.port}/streams/${session_id}?session_token=${session_token}`;
    const client = await new StreamClient(url).ready();
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
    await patient.close();
  });
});

describe('a client that reads too slowly', () => {
  /** Pieces of a second, as many as no buffer of a kernel has room for. */
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
    // It is heard of, so that this is not what ends it.
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
    expect(final.streamedMs, 'not billed for long').toBeLessThan(6_000);
    client.ws.terminate();
  });

  it('voice: one that reads again in time gets everything', async () => {
    const { client } = await rig.stream();
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

  it('pictures: it gets the newest one, and few that are old', async () => {
    rig.agent.ready = PICTURE_READY;
    const { client, relay } = await rig.stream('full-live-swap');
    const picture = (n: number) => {
      const data = Buffer.alloc(30_000, 1);
      data.writeUInt32BE(n);
      return data;
    };
    relay.media(1n, picture(0));
    await client.received(1);
    await delay(50);
    client.ws.pause();
    for (let i = 1; i <= 60; i++) {
      relay.media(BigInt(i + 1), picture(i));
      await delay(4);
    }
    client.ws.resume();
    await expect.poll(() => client.media.at(-1)?.readUInt32BE()).toBe(60);
    expect(client.media.length, 'a quarter of a second of pictures, and the newest').toBeLessThanOrEqual(10);
    client.ws.close();
    await expect.poll(() => rig.gateway.logLines.at(-1)).toMatch(/"dropped":5\d/);
  });
});

describe('an agent that does not answer', () => {
  it('voice: two seconds of sound are sent, the rest is left with the client, and all of it is answered later', async () => {
    rig.agent.mode = 'hold';
    const { client, relay } = await rig.stream();
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
    rig.agent.mode = 'echo';
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

describe('hostile clients', () => {
  it('a frame that says it has a gigabyte is refused before it comes', async () => {
    const { socket, id } = await rig.rawStream();
    let received = '';
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
    });
    socket.resume();
    socket.write(Buffer.from([0x82, 0xff, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0]));
    await expect.poll(() => received).toContain('too_big:');
    expect((await rig.final(id)).reason).toBeUndefined();
  });

  it.each([
    ['a frame that is not masked', Buffer.from([0x82, 2, 1, 1])],
    ['an opcode that there is not', Buffer.from([0x83, 0x80, 0, 0, 0, 0])],
    ['compression that was not agreed on', Buffer.from([0xc2, 0x80, 0, 0, 0, 0])],
  ])('%s closes it with 1002', async (_name, bytes) => {
    const { socket, id } = await rig.rawStream();
    let received = Buffer.alloc(0);
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk]);
    });
    socket.resume();
    socket.write(bytes);
    await expect.poll(() => received.toString('latin1')).toContain('protocol_error');
    expect(received.includes(Buffer.from([0x03, 0xea])), '1002').toBe(true);
    await rig.final(id);
  });

  it('a close frame ends the session at once, however long the connection is kept', async () => {
    const { socket, relay, id } = await rig.rawStream();
    socket.write(Buffer.concat([frame(CHUNK), frame(Buffer.from([0x03, 0xe8]), 8)]));
    expect((await rig.final(id)).reason).toBeUndefined();
    await expect.poll(() => relay.over).toBe(true);
    expect(socket.destroyed).toBe(false);
    socket.destroy();
  });

  it('pongs that nobody asked for change nothing', async () => {
    const { client } = await rig.stream();
    for (const text of ['1', '99999', '-1', 'x', '', '1e3']) client.ws.pong(text);
    client.ws.send(CHUNK);
    await client.received(1);
    expect(client.closed).toBeUndefined();
    client.ws.close();
  });

  it('media that comes before the upgrade is answered is taken, and what follows a close is not', async () => {
    const session = await rig.open();
    const socket = connect(rig.gateway.port, '127.0.0.1');
    socket.write(Buffer.concat([Buffer.from(upgradeHead(rig.urlOf(session))), frame(CHUNK)]));
    const ours = () => rig.agent.relays.find(({ open }) => open.sessionId === session.session_id);
    await expect.poll(() => ours()?.received.length).toBe(1);
    const relay = rig.agent.relayOf(session.session_id);
    socket.write(Buffer.concat([frame(Buffer.from('text'), 1), frame(CHUNK), frame(CHUNK)]));
    await rig.final(session.session_id);
    expect(relay.received).toHaveLength(1);
    socket.destroy();
  });

  it('a thousand connections with bad tokens leave nothing behind', async () => {
    const session = await rig.open();
    const url = rig.urlOf(session).replace(/token=.*/, 'token=wrong');
    const before = resources();
    for (let round = 0; round < 10; round++) {
      const codes = await Promise.all(Array.from({ length: 100 }, () => refusalOf(url)));
      expect(new Set(codes)).toEqual(new Set([401]));
    }
    await expect.poll(resources).toBeLessThanOrEqual(before);
    const good = await new StreamClient(rig.urlOf(session)).ready();
    good.ws.close();
  });
});

describe('the control plane', () => {
  it('is away when sessions end: they are told it once it is back', async () => {
    const { client, id } = await rig.stream();
    client.ws.send(CHUNK);
    await client.received(1);
    const { port } = rig.gateway.control;
    await rig.gateway.control.close();
    client.ws.close();
    await client.end();
    expect(rig.gateway.gateway.live.reporter.owed).toBe(1);
    await delay(500);
    await rig.gateway.control.start(port);
    expect(await rig.final(id)).toEqual({ streamedMs: 20, reason: undefined });
    await expect.poll(() => rig.gateway.gateway.live.reporter.owed).toBe(0);
  });

  it('away for a while: streams go on', async () => {
    const { client } = await rig.stream();
    const { port } = rig.gateway.control;
    await rig.gateway.control.close();
    for (let i = 1; i <= 5; i++) {
      client.ws.send(CHUNK);
      await client.received(i);
      await delay(100);
    }
    await rig.gateway.control.start(port);
    client.ws.close();
    const served = async () =>
      (await fetch(`${rig.gateway.base}/balance`, { headers: rig.gateway.auth })).status;
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
    rig.agent.keep = false;
    await cycle(100);
    const before = { resources: resources(), heap: heapBytes() };
    for (let round = 0; round < 5; round++) await cycle(200);
    await expect.poll(() => rig.gateway.gateway.live.size).toBe(0);
    await expect.poll(() => rig.gateway.gateway.live.reporter.owed).toBe(0);
    await expect.poll(resources).toBeLessThanOrEqual(before.resources);
    expect(rig.gateway.gateway.live.agents.size).toBe(1);
    expect(heapBytes() - before.heap, 'less than two kilobytes for each').toBeLessThan(2_000_000);
  });

  /** So many sessions, twenty at a time, ended in every way there is. */
  async function cycle(count: number): Promise<void> {
    for (let n = 0; n < count; n += 20) {
      const streams = await Promise.all(Array.from({ length: 20 }, () => rig.stream()));
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
    await expect.poll(() => rig.gateway.gateway.live.size).toBe(0);
    // What the doubles keep is theirs.
    rig.agent.relays.length = 0;
    rig.live.sessions.clear();
    rig.live.messages.length = 0;
    rig.gateway.control.calls.length = 0;
    rig.gateway.logLines.length = 0;
  }
});

/** Sockets and timers of this process, clients and doubles included. */
function resources(): number {
  return process.getActiveResourcesInfo().filter((name) => /TCP|Timeout|Immediate/.test(name)).length;
}

function heapBytes(): number {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
  collect();
  return process.memoryUsage().heapUsed;
}

function refusalOf(url: string): Promise<number> {
  return new Promise((resolve) => {
    const ws = new WebSocket(url);
    ws.on('error', () => {});
    ws.once('unexpected-response', (_request, response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
      ws.terminate();
    });
  });
}
