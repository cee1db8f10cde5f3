import { connect } from 'node:net';
import { EndReason } from '@semblance/proto/semblance/live/v1/live';
import { PICTURE_READY } from '@semblance/testkit/gateway/agent-double';
import { impatientRig, resources } from '@semblance/testkit/gateway/impatient-rig';
import { CHUNK, frame, jpegOf, StreamClient, upgradeHead } from '@semblance/testkit/gateway/stream-rig';
import { describe, expect, it } from 'vitest';
import WebSocket from 'ws';

const rig = impatientRig();

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

  it('a message in more pieces than are taken closes it with 1008, though they are empty', async () => {
    const { socket, relay, id } = await rig.rawStream();
    let received = Buffer.alloc(0);
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk]);
    });
    socket.resume();
    const empty = Buffer.alloc(0);
    socket.write(Buffer.concat([piece(empty, 2), ...Array(254).fill(piece(empty, 0)), frame(CHUNK, 0)]));
    await expect.poll(() => relay.received.length, { message: '256 pieces are one message' }).toBe(1);
    socket.write(Buffer.concat([piece(empty, 2), ...Array(255).fill(piece(empty, 0))]));
    socket.write(piece(empty, 0));
    await expect.poll(() => received.toString('latin1')).toContain('too_fast: a message in too many pieces');
    expect(received.includes(Buffer.from([0x03, 0xf0])), '1008').toBe(true);
    expect((await rig.final(id)).reason, 'the caller ended it').toBeUndefined();
    await expect.poll(() => relay.fault).toContain('too_fast');
    expect(relay.received).toHaveLength(1);
  });

  it('a close frame ends the session at once, however long the connection is kept', async () => {
    const { socket, relay, id } = await rig.rawStream();
    socket.write(Buffer.concat([frame(CHUNK), frame(Buffer.from([0x03, 0xe8]), 8)]));
    expect((await rig.final(id)).reason).toBeUndefined();
    await expect.poll(() => relay.over).toBe(true);
    expect(socket.destroyed).toBe(false);
    socket.destroy();
  });

  it('a close frame behind more pictures than are under way ends the session at the agent, too', async () => {
    rig.agent.ready = PICTURE_READY;
    const { socket, relay, id } = await rig.rawStream('full-live-swap');
    const pictures = Array.from({ length: 5 }, () => frame(jpegOf(640, 480, 100)));
    socket.write(Buffer.concat([...pictures, frame(Buffer.from([0x03, 0xe8]), 8)]));
    expect((await rig.final(id)).reason).toBeUndefined();
    // The agent is told at once.
    await expect.poll(() => relay.over, { timeout: 5_000 }).toBe(true);
    expect(relay.closed).toBe(EndReason.END_REASON_UNSPECIFIED);
    socket.destroy();
  });

  it('a burst of pings within the bound costs nobody the session, and one beyond it is told so', async () => {
    const { socket, id } = await rig.rawStream();
    let received = Buffer.alloc(0);
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk]);
    });
    socket.resume();
    const ping = (text: string) => frame(Buffer.from(text), 9);
    socket.write(Buffer.concat([...Array(899).fill(ping('one')), ping('last'), frame(CHUNK)]));
    await expect.poll(() => received.includes(CHUNK), { message: 'media goes on' }).toBe(true);
    await expect.poll(() => received.includes(Buffer.from('\x8a\x04last', 'latin1'))).toBe(true);
    socket.write(Buffer.concat(Array(1_200).fill(ping('more'))));
    await expect.poll(() => received.toString('latin1')).toContain('too_fast: more than 500 messages');
    await rig.final(id);
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

/** Returns a frame that is not the last of its message. */
function piece(data: Buffer, opcode: number): Buffer {
  const bytes = frame(data, opcode);
  bytes.writeUInt8(opcode);
  return bytes;
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
