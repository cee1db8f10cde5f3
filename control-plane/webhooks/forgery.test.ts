import { spawn } from 'node:child_process';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { join } from 'node:path';
import { startNameServer, type Zone } from '@semblance/testkit/control-plane/name-server';
import { afterEach, describe, expect, test } from 'vitest';
import { createAddressGuard } from './addresses.ts';
import { createSender, resolve } from './sender.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** Counts its requests, and records the host of the last one. */
async function target(host = '127.0.0.1', port = 0) {
  const seen: string[] = [];
  const server: Server = createServer((request, response) => {
    seen.push(request.headers.host ?? '');
    response.writeHead(200, { connection: 'close' }).end();
  });
  await new Promise<void>((listening) => server.listen(port, host, listening));
  closing.push(() => new Promise((closed) => server.close(closed)));
  return { seen, port: (server.address() as AddressInfo).port };
}

async function nameServer(zone: Zone) {
  const { questions, servers, close } = await startNameServer(zone);
  closing.push(close);
  return { questions, servers };
}

/** Sends as the control plane does, except for the name server. */
function sender(servers: readonly string[], allow = ['127.0.0.1/32']) {
  const made = createSender({
    guard: createAddressGuard({ allow }),
    timeoutMs: 20_000,
    lookup: (name, signal) => resolve(name, signal, servers),
  });
  closing.push(() => made.close());
  return made;
}

describe('DNS rebinding, with a name server that changes its mind', () => {
  test('the address that was checked is connected to, and a connection made later is checked again', async () => {
    const open = await target('127.0.0.1');
    const inside = await target('127.0.0.2', open.port);
    const dns = await nameServer((_, asked) => ({ a: [asked === 0 ? '127.0.0.1' : '127.0.0.2'] }));
    const { send } = sender(dns.servers);
    const url = `http://rebinding.test:${open.port}/`;
    expect(await send(url, '{}', {})).toMatchObject({ status: 200 });
    expect(dns.questions).toEqual(['A rebinding.test']);
    expect(await send(url, '{}', {})).toMatchObject({
      status: undefined,
      error: expect.stringContaining('127.0.0.2 is not a public address'),
    });
    expect([open.seen, inside.seen]).toEqual([[`rebinding.test:${open.port}`], []]);
  });

  test.each([
    ['one of several addresses', { a: ['127.0.0.1', '127.0.0.2'] }],
    ['cloud metadata', { a: ['169.254.169.254'] }],
    ['cloud metadata over IPv6', { a: ['127.0.0.1'], aaaa: ['fd00:0ec2:0:0:0:0:0:0254'] }],
    ['an IPv6 address that is mapped', { aaaa: ['0:0:0:0:0:ffff:7f00:0002'] }],
    ['an IPv6 address of NAT64', { aaaa: ['64:ff9b:0:0:0:0:7f00:0002'] }],
    ['an IPv6 address of local-use NAT64', { aaaa: ['64:ff9b:1:0:0:0:7f00:0002'] }],
    ['an IPv6 address of 6to4', { aaaa: ['2002:7f00:0002:0:0:0:0:1'] }],
    ['an IPv6 address of Teredo', { aaaa: ['2001:0:0:0:0:0:80ff:fffd'] }],
    ['an IPv6 loopback beside a public address', { a: ['127.0.0.1'], aaaa: ['0:0:0:0:0:0:0:1'] }],
    ['0.0.0.0', { a: ['0.0.0.0'] }],
    ['carrier-grade NAT', { a: ['100.64.0.1'] }],
  ])('a name that leads to %s is refused', async (_, records) => {
    const { seen, port } = await target('127.0.0.1');
    const dns = await nameServer(() => records);
    const answer = await sender(dns.servers).send(`http://name.test:${port}/`, '{}', {});
    expect(answer.error).toContain('is not a public address');
    expect(seen).toEqual([]);
  });
});

describe('hosts written otherwise', () => {
  test.each([
    'http://2130706434:PORT/',
    'http://0x7f000002:PORT/',
    'http://0177.0.0.2:PORT/',
    'http://127.2:PORT/',
    'http://127.0.0.2.:PORT/',
    'http://%31%32%37.0.0.2:PORT/',
    'http://①②⑦.⓪.⓪.②:PORT/',
    'http://[::ffff:127.0.0.2]:PORT/',
    'http://[::ffff:7f00:2]:PORT/',
    'http://[::127.0.0.2]:PORT/',
    'http://[64:ff9b::127.0.0.2]:PORT/',
    'http://[64:ff9b:1::127.0.0.2]:PORT/',
    'http://[2002:7f00:2::1]:PORT/',
    'http://[2001:0:1::80ff:fffd]:PORT/',
    'http://[::1]:PORT/',
    'http://[::]:PORT/',
    'http://0:PORT/',
    'http://[fd00:ec2::254]:PORT/',
    'http://169.254.169.254:PORT/',
    'http://100.64.0.1:PORT/',
  ])('%s is refused', async (url) => {
    const { seen, port } = await target('127.0.0.2');
    const answer = await sender(['127.0.0.1:1']).send(url.replace('PORT', String(port)), '{}', {});
    expect(answer).toMatchObject({
      status: undefined,
      error: expect.stringContaining('is not a public address'),
    });
    expect(seen).toEqual([]);
  });

  test.each(['http://localhost:PORT/', 'http://LOCALHOST.:PORT/', 'http://a.localhost:PORT/'])(
    '%s is loopback, whatever a name server says',
    async (url) => {
      const { seen, port } = await target('127.0.0.1');
      const answer = await sender(['127.0.0.1:1'], []).send(url.replace('PORT', String(port)), '{}', {});
      expect(answer.error).toContain('127.0.0.1 is not a public address');
      expect(seen).toEqual([]);
    },
  );

  test('a zone is no address, and an international name is asked for in its ASCII form', async () => {
    const { port } = await target('127.0.0.1');
    const dns = await nameServer(() => ({ a: ['127.0.0.1'] }));
    const { send } = sender(dns.servers);
    expect((await send(`http://[fe80::1%25lo]:${port}/`, '{}', {})).status).toBeUndefined();
    expect(await send(`http://bücher.test:${port}/`, '{}', {})).toMatchObject({ status: 200 });
    expect(dns.questions).toEqual(['A xn--bcher-kva.test']);
  });

  test('ports of other protocols are refused, also where the owner allows the address', async () => {
    const { send } = sender(['127.0.0.1:1']);
    for (const port of [0, 22, 25, 53, 389, 6667])
      expect((await send(`http://127.0.0.1:${port}/`, '{}', {})).error).toBe(
        `port ${port} is one of another protocol`,
      );
  });
});

test('a proxy of the environment is not used', async () => {
  const { seen, port } = await target('127.0.0.1');
  const proxy = await target('127.0.0.1');
  const script = `
    import { createAddressGuard } from ${JSON.stringify(join(import.meta.dirname, 'addresses.ts'))};
    import { createSender } from ${JSON.stringify(join(import.meta.dirname, 'sender.ts'))};
    const sender = createSender({ guard: createAddressGuard({ allow: ['127.0.0.1/32'] }) });
    const { status } = await sender.send('http://127.0.0.1:${port}/', '{}', {});
    await sender.close();
    process.exitCode = status === 200 ? 0 : 1;`;
  const through = `http://127.0.0.1:${proxy.port}`;
  const names = ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY', 'http_proxy', 'https_proxy', 'all_proxy'];
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      ...process.env,
      NO_PROXY: '',
      NODE_USE_ENV_PROXY: '1',
      ...Object.fromEntries(names.map((name) => [name, through])),
    },
  });
  expect(await new Promise((exited) => child.once('exit', exited))).toBe(0);
  expect([seen.length, proxy.seen]).toEqual([1, []]);
});

describe('receivers that take their time', () => {
  /** Sends one byte at a time, for ever. */
  async function dripping(begin: string, more: string) {
    const server = createTcpServer((socket) => {
      socket.on('error', () => {});
      socket.write(begin);
      const timer = setInterval(() => socket.write(more), 40);
      socket.once('close', () => clearInterval(timer));
    });
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    closing.push(() => new Promise((closed) => server.close(closed)));
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  }
  const patient = (timeoutMs = 20_000) => {
    const made = createSender({ guard: createAddressGuard({ allow: ['127.0.0.1/32'] }), timeoutMs });
    closing.push(() => made.close());
    return made;
  };

  test.each([
    ['of a head', 'HTTP/1.1 200 OK\r\nx-drip: ', 'x'],
    ['of informational answers', '', 'HTTP/1.1 102 Processing\r\n\r\n'],
  ])('drops %s for ever are a failure when the time is up', async (_, begin, more) => {
    const answer = await patient(700).send(await dripping(begin, more), '{}', {});
    expect(answer).toMatchObject({ status: undefined, error: 'no answer within 700 ms' });
  });

  test('a 2xx whose body drips for ever is a success', async () => {
    const url = await dripping('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n', '1\r\nx\r\n');
    expect(await patient().send(url, '{}', {})).toMatchObject({ status: 200, error: undefined });
  });

  test('an answer that is no HTTP is a failure', async () => {
    const answer = await patient().send(await dripping('SSH-2.0-OpenSSH_9.2\r\n', 'x'), '{}', {});
    expect(answer).toMatchObject({ status: undefined, error: expect.any(String) });
  });
});
