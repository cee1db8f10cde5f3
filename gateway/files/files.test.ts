import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import {
  parseRaw,
  sendRaw,
  startTestGateway,
  type TestGateway,
} from '@semblance/testkit/gateway/test-gateway';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';

let t: TestGateway;
const bytes = randomBytes(3_000_000);
beforeAll(async () => {
  t = await startTestGateway({ timing: { uploadIdle: 4_000 } });
  await t.store.put('outputs/picture', Readable.from([bytes]), { contentType: 'image/png' });
});
afterAll(() => t.close());

const link = async (key = 'outputs/picture') => t.local(await t.store.signGet(key, { expiresInSeconds: 60 }));
const signPut = async (key: string, maxBytes = 1000) => {
  const signed = await t.store.signPut(key, { expiresInSeconds: 60, contentType: 'image/png', maxBytes });
  return { ...signed, url: t.local(signed.url) };
};
async function codeOf(response: Response) {
  return ((await response.json()) as { error: { code: string } }).error.code;
}

describe('GET /files', () => {
  it('answers the bytes with what caches, browsers and resuming clients need', async () => {
    const response = await fetch(await link());
    expect(response.status).toBe(200);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'image/png',
      'content-length': '3000000',
      'accept-ranges': 'bytes',
      etag: expect.stringMatching(/^"[0-9a-f-]{36}"$/),
      'last-modified': expect.stringMatching(/GMT$/),
      'cache-control': expect.stringMatching(/^private, max-age=([1-5]\d|60)$/),
      'content-disposition': 'inline; filename="picture.png"',
      'x-content-type-options': 'nosniff',
      'content-security-policy': "default-src 'none'; sandbox",
    });
    expect(Buffer.from(await response.arrayBuffer()).equals(bytes)).toBe(true);
  });

  it.each([
    ['face-swap-job-1.png', 'face-swap-job-1.png'],
    ['swap', 'swap.png'],
    ['page.html', 'page.html.png'],
  ])('a link with the file name %s is saved as %s', async (filename, name) => {
    const url = t.local(await t.store.signGet('outputs/picture', { expiresInSeconds: 60, filename }));
    const response = await fetch(url, { method: 'HEAD' });
    expect([response.status, response.headers.get('content-disposition')]).toEqual([
      200,
      `inline; filename="${name}"`,
    ]);
    const others = ['', 'other.png', '..%2Fx', 'a%22b', '%0d%0aSet-Cookie:x', 'x'.repeat(200)];
    for (const other of others) {
      const changed = url.replace(/filename=[^&]*/, `filename=${other}`);
      expect((await fetch(changed, { method: 'HEAD' })).status, other).toBe(403);
    }
  });

  it('HEAD answers the same headers and no body', async () => {
    const url = await link();
    const head = await fetch(url, { method: 'HEAD', headers: { range: 'bytes=0-1' } });
    expect(head.status).toBe(200);
    expect(head.headers.get('content-length')).toBe('3000000');
    expect(await head.text()).toBe('');
  });

  it.each([
    ['bytes=0-99', 0, 100],
    ['bytes=2999990-', 2_999_990, 3_000_000],
    ['bytes=-10', 2_999_990, 3_000_000],
    ['bytes=5-99999999', 5, 3_000_000],
  ])('Range %s', async (range, start, end) => {
    const response = await fetch(await link(), { headers: { range } });
    expect(response.status).toBe(206);
    expect(response.headers.get('content-range')).toBe(`bytes ${start}-${end - 1}/3000000`);
    expect(response.headers.get('content-length')).toBe(String(end - start));
    expect(Buffer.from(await response.arrayBuffer()).equals(bytes.subarray(start, end))).toBe(true);
  });

  it('a range outside is 416 and says the size', async () => {
    const response = await fetch(await link(), { headers: { range: 'bytes=3000000-' } });
    expect(response.status).toBe(416);
    expect(response.headers.get('content-range')).toBe('bytes */3000000');
    for (const name of ['cache-control', 'content-disposition', 'etag', 'last-modified'])
      expect(response.headers.get(name), name).toBeNull();
    expect(await codeOf(response)).toBe('invalid_input');
  });

  it('several ranges, or nonsense, are answered with the whole', async () => {
    for (const range of ['bytes=0-1,5-6', 'pages=1-2', 'bytes=9-1']) {
      const response = await fetch(await link(), { headers: { range } });
      expect(response.status).toBe(200);
      await response.arrayBuffer();
    }
  });

  it('resumes only what is unchanged', async () => {
    const url = await link();
    const etag = (await fetch(url, { method: 'HEAD' })).headers.get('etag') ?? '';
    const same = await fetch(url, { headers: { range: 'bytes=0-9', 'if-range': etag } });
    expect(same.status).toBe(206);
    const changed = await fetch(url, { headers: { range: 'bytes=0-9', 'if-range': '"other"' } });
    expect(changed.status).toBe(200);
    await changed.arrayBuffer();
    const current = await fetch(url, { headers: { 'if-none-match': etag } });
    expect([current.status, await current.text()]).toEqual([304, '']);
  });

  it('an expired link is 403 and says so; a changed one is 403', async () => {
    const past = { expiresInSeconds: 1, signedAt: new Date(Date.now() - 5000) };
    const expired = await fetch(t.local(await t.store.signGet('outputs/picture', past)));
    expect(expired.status).toBe(403);
    expect(((await expired.json()) as { error: { message: string } }).error.message).toMatch(/expired/);
    const url = await link();
    for (const changed of [
      url.replace('picture', 'pictures'),
      url.replace(/expires=\d+/, 'expires=9999999999'),
      url.replace(/signature=./, 'signature=!'),
      url.replace('/files/', '/files//'),
      url.replace('outputs/', 'outputs%2F'),
      url.replace('outputs/', 'x/../outputs/').replace('http:', 'http:'),
      url.slice(0, url.indexOf('?')),
    ]) {
      const target = new URL(changed);
      const raw = `GET ${changed.slice(target.origin.length)} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`;
      const answer = parseRaw(await sendRaw(t.port, raw));
      expect(answer.status, changed).toBe(403);
      expect(JSON.parse(answer.body)).toMatchObject({ error: { code: 'unauthorized' } });
    }
  });

  it.each([
    '/files/../../../etc/passwd',
    '/files/%2e%2e/%2e%2e/etc/passwd',
    '/files/..%5c..%5cx',
    '/files/\0',
  ])('no path leads out of the store: %j', async (path) => {
    const raw = `GET ${path}?expires=9999999999&signature=x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`;
    expect([400, 403, 404]).toContain(parseRaw(await sendRaw(t.port, raw)).status);
  });

  it('a file no longer stored is 404', async () => {
    const response = await fetch(await link('outputs/gone'));
    expect(response.status).toBe(404);
    expect(await codeOf(response)).toBe('not_found');
  });

  it('clients that leave half-way leave no file open', async () => {
    const openFiles = async () => (await readdir('/proc/self/fd')).length;
    const url = new URL(await link());
    await (await fetch(url)).arrayBuffer();
    await delay(50);
    const before = await openFiles();
    for (let i = 0; i < 10; i++) {
      const socket = connect(t.port, '127.0.0.1');
      socket.write(`GET ${url.pathname}${url.search} HTTP/1.1\r\nHost: x\r\n\r\n`);
      await once(socket, 'data');
      socket.destroy();
    }
    await expect.poll(openFiles).toBeLessThanOrEqual(before);
  });

  it('sends a file only so often at once, by whatever link, and all files together, and again when some have ended', async () => {
    const own = await startTestGateway({ sendLimits: { perFile: 2, inAll: 3 } });
    onTestFinished(() => own.close());
    const links: URL[] = [];
    for (const key of ['outputs/a', 'outputs/b']) {
      await own.store.put(key, Readable.from([randomBytes(48_000_000)]), { contentType: 'video/mp4' });
      links.push(new URL(own.local(await own.store.signGet(key, { expiresInSeconds: 60 }))));
    }
    const begin = async (url: URL | undefined) => {
      const leave = new AbortController();
      const response = await fetch(url as URL, { signal: leave.signal });
      return { response, leave: () => leave.abort() };
    };
    const [a, b] = links;
    const under = [await begin(a), await begin(a)];
    const third = await begin(a);
    expect([third.response.status, third.response.headers.get('retry-after')]).toEqual([503, '2']);
    expect(await codeOf(third.response)).toBe('at_capacity');
    const another = own.local(await own.store.signGet('outputs/a', { expiresInSeconds: 600 }));
    for (const same of [another, `${a}&x=1`]) expect((await begin(new URL(same))).response.status).toBe(503);
    under.push(await begin(b));
    expect((await begin(b)).response.status).toBe(503);
    expect((await fetch(b as URL, { method: 'HEAD' })).status).toBe(200);
    for (const { leave } of under) leave();
    await expect.poll(async () => (await begin(b)).response.status).toBe(200);
  });

  it('cuts clients that take nothing more, and not those that are slow', async () => {
    const own = await startTestGateway({ timing: { readIdle: 8_000 } });
    onTestFinished(() => own.close());
    // More than the kernels of both ends buffer.
    const large = randomBytes(48_000_000);
    await own.store.put('outputs/large', Readable.from([large]), { contentType: 'video/mp4' });
    const url = new URL(own.local(await own.store.signGet('outputs/large', { expiresInSeconds: 60 })));
    const ask = async () => {
      const socket = connect(own.port, '127.0.0.1');
      onTestFinished(() => void socket.destroy());
      socket.write(`GET ${url.pathname}${url.search} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
      let bytes = 0;
      socket.on('data', (chunk) => {
        bytes += chunk.length;
      });
      socket.on('error', () => {});
      await once(socket, 'data');
      socket.pause();
      return { socket, bytes: () => bytes };
    };
    const [stuck, slow] = [await ask(), await ask()];
    // The whole takes longer than any allowed pause; an allowed pause is much longer than these.
    for (let i = 0; i < 12; i++) {
      slow.socket.resume();
      while (slow.bytes() < (i + 1) * 3_000_000) await once(slow.socket, 'data');
      slow.socket.pause();
      await delay(800);
    }
    await expect.poll(() => own.registry.metrics()).toMatch(/semblance_gateway_connections 1\n/);
    const ended = [once(stuck.socket, 'close'), once(slow.socket, 'close')];
    stuck.socket.resume();
    slow.socket.resume();
    await Promise.all(ended);
    expect(stuck.bytes()).toBeLessThan(large.length);
    expect(slow.bytes()).toBeGreaterThan(large.length);
  });
});

describe('PUT /files', () => {
  it('stores what the link permits, and may be repeated', async () => {
    const { url, headers } = await signPut('outputs/a');
    for (const body of ['first', 'second']) {
      const response = await fetch(url, { method: 'PUT', headers, body });
      expect([response.status, await response.text()]).toEqual([200, '']);
    }
    expect(await (await fetch(await link('outputs/a'))).text()).toBe('second');
  });

  it('refuses more bytes than signed, declared or not, and another type', async () => {
    const { url, headers } = await signPut('outputs/b', 10);
    const declared = await fetch(url, { method: 'PUT', headers, body: 'x'.repeat(11) });
    const streamed = await fetch(url, {
      method: 'PUT',
      headers,
      body: ReadableStream.from([Buffer.from('x'.repeat(6)), Buffer.from('x'.repeat(5))]),
      duplex: 'half',
    } as RequestInit);
    for (const response of [declared, streamed]) {
      expect(response.status).toBe(400);
      expect(await codeOf(response)).toBe('input_too_large');
    }
    const typed = await fetch(url, { method: 'PUT', headers: { 'content-type': 'text/html' }, body: 'x' });
    expect([typed.status, await codeOf(typed)]).toEqual([400, 'invalid_input']);
    expect((await fetch(await link('outputs/b'))).status).toBe(404);
  });

  it('takes no link for reading, nor one whose limits were raised', async () => {
    const reading = await fetch(await link('outputs/a'), { method: 'PUT', body: 'x' });
    expect(reading.status).toBe(403);
    const { url, headers } = await signPut('outputs/a', 10);
    const raised = url.replace('max_bytes=10', 'max_bytes=1000');
    expect((await fetch(raised, { method: 'PUT', headers, body: 'x' })).status).toBe(403);
  });

  it('stores nothing of a body that breaks off or stalls, and keeps what was there', async () => {
    const { url, headers } = await signPut('outputs/c', 10_000);
    await fetch(url, { method: 'PUT', headers, body: 'whole' });
    const { pathname, search } = new URL(url);
    const head = `PUT ${pathname}${search} HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\nContent-Length: 5000\r\n\r\n${'x'.repeat(2000)}`;
    const socket = connect(t.port, '127.0.0.1');
    socket.write(head);
    await delay(100);
    socket.destroy();
    const stalled = parseRaw(await sendRaw(t.port, head));
    expect(stalled.status).toBe(400);
    await expect.poll(async () => (await readdir(`${t.folder}/tmp`)).length).toBe(0);
    expect(await (await fetch(await link('outputs/c'))).text()).toBe('whole');
  });
});
