import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { upgradeHead } from '@semblance/testkit/gateway/stream-rig';
import { sendRaw, startTestGateway, type TestGateway } from '@semblance/testkit/gateway/test-gateway';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

/** Lines of one kind in a window (client-log.ts), and requests that would make that many times over. */
const LINES = 20;
const REQUESTS = 150;
const GATEWAY = join(import.meta.dirname, '..');

let t: TestGateway;
// A window of a kind of lines outlasts a test, so each has its own gateway.
beforeEach(async () => {
  t = await startTestGateway({ eventStreams: { tickMs: 20 } });
});
afterEach(() => t.close());

const raw = (head: string) => () => sendRaw(t.port, head, 20);
const get =
  (path: string, headers: Record<string, string> = {}) =>
  async () => {
    await (await fetch(`${t.origin}${path}`, { headers })).arrayBuffer();
  };

/** Opens a stream of events and breaks its connection. */
async function brokenEvents(): Promise<void> {
  const socket = connect(t.port, '127.0.0.1');
  socket.on('error', () => {});
  socket.write(
    `GET /api/v1/jobs/job-1/events HTTP/1.1\r\nHost: a\r\nAuthorization: ${t.auth.authorization}\r\n\r\n`,
  );
  await once(socket, 'data');
  socket.resetAndDestroy();
}

describe('a client that sends the same again and again', () => {
  it.each<[string, () => () => Promise<unknown>]>([
    ['no key', () => get('/api/v1/balance')],
    ['a key that is none', () => get('/api/v1/balance', { authorization: 'Bearer x' })],
    ['a path that there is not', () => get('/nothing')],
    ['a method that nobody knows', () => raw('PROPFIND /api/v1/balance HTTP/1.1\r\nHost: a\r\n\r\n')],
    ['a page that needs no key', () => get('/api/v1/openapi.json')],
    ['prices', () => get('/api/v1/pricing')],
    ['a link that was not signed', () => get('/files/api/x?expires=1&signature=x')],
    ['a query that is too long', () => get(`/api/v1/usage?${'a'.repeat(2_000)}`, t.auth)],
    ['an input that is refused', () => get('/api/v1/usage?limit=x', t.auth)],
    ['what is no HTTP', () => raw('nonsense\r\n\r\n')],
    ['an expectation', () => raw('GET / HTTP/1.1\r\nHost: a\r\nExpect: much\r\n\r\n')],
    ['headers without end', () => raw(`GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`)],
    [
      'a half body',
      () => raw('POST /api/v1/face-swap-image HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{'),
    ],
    ['a socket without a token', () => raw(upgradeHead('ws://a/streams/ses-1'))],
    ['streams of events that it breaks off', () => brokenEvents],
  ])('%s: the log grows by a few lines', async (_what, request) => {
    t.control.jobs.set('job-1', { id: 'job-1', status: 'processing' } as never);
    t.logLines.length = 0;
    const send = request();
    for (let sent = 0; sent < REQUESTS; sent += 25)
      await Promise.all(Array.from({ length: Math.min(25, REQUESTS - sent) }, send));
    // The line of a broken connection comes a moment later.
    await expect.poll(() => t.logLines.length).toBeGreaterThanOrEqual(LINES);
    // Two kinds at most: that of the request, and that of its failed answer.
    expect(t.logLines.length, t.logLines.slice(-3).join('')).toBeLessThanOrEqual(2 * LINES);
  });

  it('with a key: what it is admitted for has a line each, since its limit bounds it', async () => {
    t.logLines.length = 0;
    for (let i = 0; i < 2 * LINES; i++) await get('/api/v1/balance', t.auth)();
    await expect.poll(() => t.logLines.length).toBe(2 * LINES);
  });
});

/** Lines by the logger itself, by file, with what bounds them. */
const BOUNDED: Readonly<Record<string, string>> = {
  'gateway.ts': 'the end of the gateway',
  'serve.ts': 'its start',
  'streams/handshake.ts':
    'sockets that are opened: once for each session, and sessions count for the limit of a key',
  'streams/live-streams.ts': 'ends of those; and the end of the gateway',
  'streams/reporter.ts':
    'changes between failing and working; reports that are given up: one for each session',
};

it('every other line of the gateway goes through a log for clients, or is bounded by the limit of a key', async () => {
  const found = new Set<string>();
  for (const file of await readdir(GATEWAY, { recursive: true })) {
    if (!file.endsWith('.ts') || file.endsWith('.test.ts') || file.includes('node_modules')) continue;
    if (/\blogger\.(info|warn|error)\(/.test(await readFile(join(GATEWAY, file), 'utf8'))) found.add(file);
  }
  expect([...found].sort()).toEqual(Object.keys(BOUNDED).sort());
});
