import { createHash, randomBytes } from 'node:crypto';
import { readFile, stat, writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { freePort } from '@semblance/local/process/ports';
import {
  BODY,
  failure,
  IMPATIENT,
  impatiently,
  LIMITS,
  useTransferRig,
} from '@semblance/testkit/gpu-agent/transfer-rig';
import { describe, expect, it } from 'vitest';
import { fetchInput } from './fetch-input.ts';

const rig = useTransferRig();
const fetchTo = (url: string, options: Partial<Parameters<typeof fetchInput>[0]> = {}) =>
  fetchInput({ ...rig.options, url, maxBytes: 1_000_000, what: 'input image', ...options });

/** Sends the first bytes of the body, and breaks the connection when they are on disk. */
async function breakOff(response: ServerResponse): Promise<void> {
  const bytes = 100_000;
  response.write(BODY.subarray(0, bytes));
  const arrived = () =>
    stat(rig.path).then(
      ({ size }) => size,
      () => 0,
    );
  await expect.poll(arrived).toBe(bytes);
  response.destroy();
}

describe('fetching', () => {
  it('streams the object to a private file', async () => {
    rig.store.objects.set('/a', BODY);
    expect(await fetchTo(rig.store.url('/a'))).toBe(BODY.length);
    expect(await readFile(rig.path)).toEqual(BODY);
    expect((await stat(rig.path)).mode & 0o777).toBe(0o600);
  });

  it('tries again after 500 and after a broken connection', async () => {
    rig.store.objects.set('/a', BODY);
    rig.store.on('/a', (request, response, nth) => {
      if (nth === 1) return void response.writeHead(500).end('oops');
      if (nth === 2) return void response.destroy();
      rig.store.serve(request, response, BODY);
    });
    await fetchTo(rig.store.url('/a'));
    expect(await readFile(rig.path)).toEqual(BODY);
    expect(rig.retries).toBe(2);
  });

  it('goes on where the body was cut off, and asks for the rest only', async () => {
    const ranges: (string | undefined)[] = [];
    rig.store.on('/a', async (request, response, nth) => {
      ranges.push(request.headers.range);
      if (nth > 1) return rig.store.serve(request, response, BODY);
      const etag = `"${createHash('sha256').update(BODY).digest('hex').slice(0, 16)}"`;
      response.writeHead(200, { etag, 'accept-ranges': 'bytes', 'content-length': BODY.length });
      await breakOff(response);
    });
    expect(await fetchTo(rig.store.url('/a'))).toBe(BODY.length);
    expect(await readFile(rig.path)).toEqual(BODY);
    expect(ranges).toEqual([undefined, 'bytes=100000-']);
  });

  it('begins again when the object is another by then', async () => {
    const other = randomBytes(50_000);
    rig.store.on('/a', async (request, response, nth) => {
      if (nth > 1) return rig.store.serve(request, response, other);
      response.writeHead(200, { etag: '"old"', 'accept-ranges': 'bytes', 'content-length': BODY.length });
      await breakOff(response);
    });
    expect(await fetchTo(rig.store.url('/a'))).toBe(other.length);
    expect(await readFile(rig.path)).toEqual(other);
  });

  it.each([
    ['another range', { 'content-range': 'bytes 5-9/300000' }],
    ['no range', {}],
  ])('does not join a rest that is %s', async (_what, headers) => {
    rig.store.on('/a', async (request, response, nth) => {
      if (nth === 1) {
        response.writeHead(200, { etag: '"e"', 'accept-ranges': 'bytes', 'content-length': BODY.length });
        await breakOff(response);
      } else if (request.headers.range) response.writeHead(206, headers).end('wrong');
      else rig.store.serve(request, response, BODY);
    });
    await fetchTo(rig.store.url('/a'));
    expect(await readFile(rig.path)).toEqual(BODY);
  });

  it.each([403, 404, 410])('does not ask again after %i', async (status) => {
    rig.store.on('/a', (_request, response) => void response.writeHead(status).end());
    const error = await failure(fetchTo(rig.store.url('/a?signature=secret')));
    expect(error).toMatchObject({ code: 'link_refused', retryable: false });
    expect(error.message).toContain(String(status));
    expect(error.message).not.toContain('secret');
    expect(rig.store.count('/a')).toBe(1);
  });

  it.each([
    ['S3', '<?xml version="1.0"?><Error><Code>NoSuchKey</Code><Key>api/up-1</Key></Error>'],
    ['the gateway', '{"error":{"code":"not_found","message":"This file is no longer stored."}}'],
  ])('says which object %s does not have', async (_who, body) => {
    rig.store.on('/a', (_request, response) => void response.writeHead(404).end(body));
    const error = await failure(fetchTo(rig.store.url('/a'), { key: 'api/up-1' }));
    expect(error).toMatchObject({
      code: 'input_missing',
      retryable: false,
      message: 'The input image does not exist: nothing is stored under api/up-1.',
    });
    expect(rig.store.count('/a')).toBe(1);
  });

  it.each([
    ['of an ingress', 'default backend - 404'],
    ['about the bucket', '<Error><Code>NoSuchBucket</Code></Error>'],
    ['without end', `${' '.repeat(20_000)}<Code>NoSuchKey</Code>`],
    ['without a body', ''],
  ])('takes a 404 %s for no word of the object', async (_what, body) => {
    rig.store.on('/a', (_request, response) => void response.writeHead(404).end(body));
    expect((await failure(fetchTo(rig.store.url('/a')))).code).toBe('link_refused');
  });

  it('follows no redirect', async () => {
    rig.store.objects.set('/b', BODY);
    rig.store.on(
      '/a',
      (_request, response) => void response.writeHead(302, { location: rig.store.url('/b') }).end(),
    );
    expect((await failure(fetchTo(rig.store.url('/a')))).message).toMatch(/302; redirects are not followed/);
    expect(rig.store.count('/b')).toBe(0);
  });

  it.each(['file:///etc/passwd', 'ftp://127.0.0.1/x', 'data:text/plain,x', 'nonsense'])(
    'does not fetch %s',
    async (url) => {
      expect((await failure(fetchTo(url))).code).toBe('bad_link');
    },
  );

  it('refuses at once what says that it is too large', async () => {
    rig.store.objects.set('/a', BODY);
    const error = await failure(fetchTo(rig.store.url('/a'), { maxBytes: BODY.length - 1 }));
    expect(error).toMatchObject({ code: 'input_too_large', retryable: false });
    expect(rig.store.count('/a')).toBe(1);
  });

  it('stops what grows too large without having said so', async () => {
    rig.store.on('/a', (_request, response) => {
      response.writeHead(200);
      const more = () =>
        !response.destroyed && response.write(Buffer.alloc(65_536), () => setImmediate(more));
      more();
    });
    expect((await failure(fetchTo(rig.store.url('/a'), { maxBytes: 500_000 }))).code).toBe('input_too_large');
    expect((await stat(rig.path)).size).toBeLessThanOrEqual(500_000);
  });

  it('takes exactly as many bytes as allowed', async () => {
    rig.store.objects.set('/a', BODY);
    expect(await fetchTo(rig.store.url('/a'), { maxBytes: BODY.length })).toBe(BODY.length);
  });

  it('gives up after its tries when the body is always truncated', async () => {
    rig.store.on('/a', (_request, response) => {
      response.writeHead(200, { 'content-length': BODY.length });
      response.write(BODY.subarray(0, 1_000), () => response.destroy());
    });
    const error = await failure(fetchTo(rig.store.url('/a')));
    expect(error).toMatchObject({ code: 'transfer_failed', retryable: true });
    expect(rig.store.count('/a')).toBe(LIMITS.tries);
  });

  it.each([
    ['never answers', () => {}],
    [
      'stops in the middle',
      (_request: unknown, response: { writeHead(n: number): void; write(b: Buffer): void }) => {
        response.writeHead(200);
        response.write(Buffer.alloc(10));
      },
    ],
  ])('does not wait for ever for a server that %s', async (_what, handler) => {
    rig.store.on('/a', handler as never);
    await impatiently(async (own) => {
      const error = await failure(fetchTo(rig.store.url('/a'), { limits: IMPATIENT, dispatcher: own }));
      expect(error.code).toBe('transfer_failed');
    });
    expect(rig.store.count('/a')).toBe(2);
  });

  it('gives up a body that only trickles', async () => {
    rig.store.on('/a', (_request, response) => {
      response.writeHead(200);
      const timer = setInterval(() => response.write('x'), 20);
      response.on('close', () => clearInterval(timer));
    });
    const limits = { ...LIMITS, tries: 1, rateWindowMs: 300 };
    expect((await failure(fetchTo(rig.store.url('/a'), { limits }))).message).toMatch(
      /slower than 1024 B\/s/,
    );
  });

  it('says which host cannot be reached', async () => {
    const port = await freePort();
    const error = await failure(fetchTo(`http://127.0.0.1:${port}/a?signature=secret`));
    expect(error).toMatchObject({ code: 'transfer_failed' });
    expect(error.message).toContain(`127.0.0.1:${port}`);
    expect(error.message).not.toContain('secret');
    expect(rig.retries).toBe(LIMITS.tries - 1);
  });

  it('takes what is no HTTP for a broken connection', async () => {
    const server = createServer((socket) => socket.end('SSH-2.0-x\r\n'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    expect((await failure(fetchTo(`http://127.0.0.1:${port}/`))).code).toBe('transfer_failed');
    server.close();
  });

  it.each([
    ['in the middle of the body', 30],
    ['between two tries', 0],
  ])('ends with the reason of an abort %s', async (_what, afterMs) => {
    rig.store.on('/a', (_request, response) => {
      if (afterMs === 0) return void response.writeHead(503).end();
      response.writeHead(200);
      response.write(Buffer.alloc(10));
    });
    const controller = new AbortController();
    const reason = new Error('stop');
    setTimeout(() => controller.abort(reason), 60);
    const limits = { ...LIMITS, tries: 1_000, idleMs: 5_000, pauseMs: 1_000, maxPauseMs: 1_000 };
    await expect(fetchTo(rig.store.url('/a'), { signal: controller.signal, limits })).rejects.toBe(reason);
  });

  it('names a disk that cannot be written', async () => {
    rig.store.objects.set('/a', BODY);
    await writeFile(rig.path, '');
    const error = await failure(fetchTo(rig.store.url('/a'), { path: join(rig.path, 'below-a-file') }));
    expect(error).toMatchObject({ code: 'workdir_unusable', retryable: false });
  });

  it('names a disk that is full', async () => {
    rig.store.objects.set('/a', BODY);
    expect((await failure(fetchTo(rig.store.url('/a'), { path: '/dev/full' }))).code).toBe('disk_full');
  });
});
