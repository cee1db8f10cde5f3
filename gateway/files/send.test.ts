import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { afterEach, expect, it, onTestFinished, vi } from 'vitest';
import { createSendCount, sendAtPace } from './send.ts';

afterEach(() => {
  vi.useRealTimers();
});

const PIECE = Buffer.alloc(32 * 1024);

/** Sends pieces to a client that reads nothing. */
async function stalled() {
  const answered = Promise.withResolvers<ServerResponse>();
  const server = createServer((_request, response) => answered.resolve(response));
  onTestFinished(() => void server.closeAllConnections());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  onTestFinished(() => void client.destroy());
  client.on('error', () => {});
  client.pause();
  client.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  const response = await answered.promise;
  // As of a file; without it Node frames each piece as a chunk.
  response.setHeader('Content-Length', 2 ** 40);
  let [read, ended] = [0, false];
  async function* source() {
    try {
      for (;;) {
        read++;
        yield PIECE;
      }
    } finally {
      ended = true;
    }
  }
  return { response, source: source(), read: () => read, ended: () => ended };
}

const { setTimeout: realTimeout } = globalThis;

/** Resolves when nothing more was read for a while. */
async function standsStill(read: () => number): Promise<void> {
  for (let before = -1; before !== read(); ) {
    before = read();
    await new Promise((resolve) => realTimeout(resolve, 300));
  }
}

it('cuts a client off as soon as it took nothing for the time', async () => {
  const { response, source, read, ended } = await stalled();
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const sent = sendAtPace(source, response, 60_000);
  await standsStill(read);
  vi.advanceTimersByTime(59_999);
  expect(response.destroyed).toBe(false);
  vi.advanceTimersByTime(1);
  expect(response.destroyed).toBe(true);
  await sent;
  expect(ended()).toBe(true);
});

it('keeps little of what a client does not take', async () => {
  const { response, source, read } = await stalled();
  const sent = sendAtPace(source, response, 60_000);
  await standsStill(read);
  expect(response.writableLength).toBeLessThanOrEqual(PIECE.length);
  response.destroy();
  await sent;
});

it('cuts the connection when the source fails', async () => {
  const { response } = await stalled();
  async function* source() {
    yield PIECE;
    throw new Error('the disk failed');
  }
  await expect(sendAtPace(source(), response, 60_000)).rejects.toThrow('the disk failed');
  expect(response.destroyed).toBe(true);
});

it('counts a file and all together, and forgets what has ended', () => {
  const count = createSendCount({ perFile: 2, inAll: 3 });
  const ends = [count.begin('a'), count.begin('a')];
  expect(() => count.begin('a')).toThrow(expect.objectContaining({ status: 503, code: 'at_capacity' }));
  count.begin('b');
  expect(() => count.begin('c')).toThrow(expect.objectContaining({ status: 503 }));
  for (const end of ends) end();
  count.begin('a');
  count.begin('c');
});
