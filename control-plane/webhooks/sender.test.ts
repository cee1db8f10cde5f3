import { createSocket } from 'node:dgram';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createSecureServer, type ServerHttp2Session } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { certificate, privateKey } from '@semblance/testkit/control-plane/webhooks';
import { afterEach, expect, test } from 'vitest';
import { createAddressGuard } from './addresses.ts';
import { createSender, resolve, type Sender } from './sender.ts';

const servers: Server[] = [];
const senders: Sender[] = [];
afterEach(async () => {
  for (const sender of senders.splice(0)) await sender.close();
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

async function receiver(listener: RequestListener) {
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}
/** Has long limits, so that only what hangs is given up, on any machine. */
function sender(more: Partial<Parameters<typeof createSender>[0]> = {}, allow = ['127.0.0.0/8']) {
  const made = createSender({ guard: createAddressGuard({ allow }), timeoutMs: 20_000, ...more });
  senders.push(made);
  return made;
}

test('the bytes and headers arrive as given', async () => {
  let seen: unknown;
  const port = await receiver(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    seen = {
      method: request.method,
      url: request.url,
      type: request.headers['content-type'],
      body: Buffer.concat(chunks).toString(),
    };
    response.writeHead(204).end();
  });
  const answer = await sender().send(`http://127.0.0.1:${port}/a?b=c`, '{"é":1}', {
    'content-type': 'application/json',
  });
  expect(answer).toEqual({ status: 204, error: undefined, milliseconds: expect.any(Number) });
  expect(seen).toEqual({ method: 'POST', url: '/a?b=c', type: 'application/json', body: '{"é":1}' });
});

test('a redirect is an answer that is no success, and is not followed', async () => {
  let followed = false;
  const port = await receiver((request, response) => {
    if (request.url !== '/') followed = true;
    response.writeHead(302, { location: '/other' }).end();
  });
  expect(await sender().send(`http://127.0.0.1:${port}/`, '', {})).toMatchObject({
    status: 302,
    error: 'answered 302',
  });
  expect(followed).toBe(false);
});

test('no answer in time is a failure, also when the answer begins and never ends its head', async () => {
  const port = await receiver(() => {});
  const answer = await sender({ timeoutMs: 500 }).send(`http://127.0.0.1:${port}/`, '', {});
  expect(answer).toMatchObject({ status: undefined, error: 'no answer within 500 ms' });
  expect(answer.milliseconds).toBeGreaterThanOrEqual(499);
  expect(answer.milliseconds).toBeLessThan(20_000);
});

test('an answer without end is cut', async () => {
  const port = await receiver((_, response) => {
    response.writeHead(200);
    const pour = () => {
      if (!response.destroyed) response.write('x'.repeat(65_536), () => setImmediate(pour));
    };
    pour();
  });
  expect(await sender().send(`http://127.0.0.1:${port}/`, '', {})).toMatchObject({ status: 200 });
});

test.each([
  'http://127.0.0.1:PORT/',
  'http://2130706433:PORT/',
  'http://0x7f.1:PORT/',
  'http://[::ffff:127.0.0.1]:PORT/',
  'http://localhost:PORT/',
])('%s reaches nothing that the owner has not allowed', async (url) => {
  let reached = false;
  const port = await receiver((_, response) => {
    reached = true;
    response.end();
  });
  const answer = await sender({}, []).send(url.replace('PORT', String(port)), '', {});
  expect(answer).toMatchObject({ status: undefined, error: expect.stringContaining('not a public address') });
  expect(reached).toBe(false);
});

test('the address that was checked is the one connected to, whatever the name says the next time', async () => {
  const asked: string[] = [];
  let host: string | undefined;
  const port = await receiver((request, response) => {
    host = request.headers.host;
    response.end();
  });
  const lookup = async (name: string) => {
    asked.push(name);
    return [asked.length === 1 ? '127.0.0.1' : '10.0.0.1'];
  };
  const one = sender({ lookup });
  expect(await one.send(`http://rebinding.test:${port}/`, '', {})).toMatchObject({ status: 200 });
  expect([asked, host]).toEqual([['rebinding.test'], `rebinding.test:${port}`]);
  expect(await sender({ lookup }).send(`http://rebinding.test:${port}/`, '', {})).toMatchObject({
    error: expect.stringContaining('10.0.0.1'),
  });
});

test('a name with a forbidden address among others is refused', async () => {
  const lookup = async () => ['93.184.216.34', '169.254.169.254'];
  expect((await sender({ lookup }).send('http://mixed.test/', '', {})).error).toContain('169.254.169.254');
});

test('a receiver of HTTP/2 that takes no requests holds none of ours', async () => {
  setDefaultCACertificates([...getCACertificates(), certificate]);
  const sessions: ServerHttp2Session[] = [];
  const server = createSecureServer(
    { key: privateKey, cert: certificate, allowHTTP1: true, settings: { maxConcurrentStreams: 0 } },
    (request, response) => response.end(request.httpVersion),
  );
  server.on('session', (session) => sessions.push(session));
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  try {
    const url = `https://h2.test:${(server.address() as AddressInfo).port}/`;
    const one = sender({ lookup: async () => ['127.0.0.1'] });
    const answers = await Promise.all(Array.from({ length: 5 }, () => one.send(url, '{}', {})));
    expect(answers.map(({ status, error }) => [status, error])).toEqual(Array(5).fill([200, undefined]));
    expect(sessions).toEqual([]);
  } finally {
    for (const session of sessions) session.destroy();
    await new Promise((closed) => server.close(closed));
  }
});

test('a name that is never resolved costs an attempt no more than its time, and its end is told', async () => {
  const given: AbortSignal[] = [];
  const one = sender({
    timeoutMs: 500,
    lookup: (_, signal) => {
      given.push(signal);
      return new Promise(() => {});
    },
  });
  const answers = await Promise.all(Array.from({ length: 5 }, () => one.send('http://silent.test/', '', {})));
  for (const { status, error, milliseconds } of answers) {
    expect([status, error]).toEqual([undefined, 'no answer within 500 ms']);
    expect(milliseconds).toBeLessThan(20_000);
  }
  await expect.poll(() => given.length > 0 && given.every(({ aborted }) => aborted)).toBe(true);
});

test('a silent name server is given up when nobody waits for it any more', async () => {
  const socket = createSocket('udp4');
  const asked = new Promise((heard) => socket.once('message', heard));
  await new Promise<void>((bound) => socket.bind(0, '127.0.0.1', bound));
  try {
    const limit = new AbortController();
    const answer = resolve('silent.test', limit.signal, [`127.0.0.1:${socket.address().port}`]);
    await asked;
    limit.abort();
    await expect(answer).rejects.toMatchObject({ code: 'ECANCELLED' });
  } finally {
    await new Promise<void>((closed) => socket.close(closed));
  }
});

test('localhost is known without asking', async () => {
  const nobody = ['127.0.0.1:1'];
  expect(await resolve('localhost', new AbortController().signal, nobody)).toEqual(['127.0.0.1']);
});
