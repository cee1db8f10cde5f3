import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Agent } from 'undici';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { silentLogger } from '#common/logging.ts';
import { freePort } from '../../local/process/ports.ts';
import { type HttpStore, startHttpStore } from '../testing/http-store.ts';
import { AssetError } from './errors.ts';
import { fetchInput } from './fetch-input.ts';
import { fileSha256, storeOutput } from './store-output.ts';
import { createDispatcher, DEFAULT_TRANSFER_LIMITS, type TransferLimits } from './transfer.ts';

const LIMITS: TransferLimits = {
  ...DEFAULT_TRANSFER_LIMITS,
  connectMs: 30_000,
  headersMs: 30_000,
  idleMs: 30_000,
  tries: 4,
  storeTries: 4,
  pauseMs: 5,
  maxPauseMs: 20,
};
/** For servers that do not answer. */
const IMPATIENT: TransferLimits = { ...LIMITS, headersMs: 400, idleMs: 400, tries: 2, storeTries: 2 };
const BODY = randomBytes(300_000);
const logger = silentLogger();

let dir: string;
let store: HttpStore;
let dispatcher: Agent;
let path: string;
let retries: number;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-assets-'));
});
afterAll(() => rm(dir, { recursive: true, force: true }));
beforeEach(async () => {
  store = await startHttpStore();
  dispatcher = createDispatcher(LIMITS);
  path = join(dir, randomBytes(6).toString('hex'));
  retries = 0;
});
afterEach(async () => {
  await dispatcher.destroy();
  await store.close();
});

const fetchTo = (url: string, options: Partial<Parameters<typeof fetchInput>[0]> = {}) =>
  fetchInput({
    url,
    path,
    maxBytes: 1_000_000,
    what: 'input image',
    dispatcher,
    signal: new AbortController().signal,
    logger,
    limits: LIMITS,
    onRetry: () => void retries++,
    ...options,
  });

/** With connections on which nobody waits long. */
async function impatiently(act: (dispatcher: Agent) => Promise<void>): Promise<void> {
  const own = createDispatcher(IMPATIENT);
  try {
    await act(own);
  } finally {
    await own.destroy();
  }
}

const failure = async (promise: Promise<unknown>): Promise<AssetError> => {
  const error = await promise.then(
    () => new Error('it succeeded'),
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(AssetError);
  return error as AssetError;
};

describe('fetching', () => {
  it('streams the object to a private file', async () => {
    store.objects.set('/a', BODY);
    expect(await fetchTo(store.url('/a'))).toBe(BODY.length);
    expect(await readFile(path)).toEqual(BODY);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
  });

  it('tries again after 500 and after a broken connection', async () => {
    store.objects.set('/a', BODY);
    store.on('/a', (request, response, nth) => {
      if (nth === 1) return void response.writeHead(500).end('oops');
      if (nth === 2) return void response.destroy();
      store.serve(request, response, BODY);
    });
    await fetchTo(store.url('/a'));
    expect(await readFile(path)).toEqual(BODY);
    expect(retries).toBe(2);
  });

  it('goes on where the body was cut off, and asks for the rest only', async () => {
    const ranges: (string | undefined)[] = [];
    store.on('/a', (request, response, nth) => {
      ranges.push(request.headers.range);
      if (nth > 1) return store.serve(request, response, BODY);
      const etag = `"${createHash('sha256').update(BODY).digest('hex').slice(0, 16)}"`;
      response.writeHead(200, { etag, 'accept-ranges': 'bytes', 'content-length': BODY.length });
      response.write(BODY.subarray(0, 100_000), () => setTimeout(() => response.destroy(), 50));
    });
    expect(await fetchTo(store.url('/a'))).toBe(BODY.length);
    expect(await readFile(path)).toEqual(BODY);
    expect(ranges).toEqual([undefined, 'bytes=100000-']);
  });

  it('begins again when the object is another by then', async () => {
    const other = randomBytes(50_000);
    store.on('/a', (request, response, nth) => {
      if (nth > 1) return store.serve(request, response, other);
      response.writeHead(200, { etag: '"old"', 'accept-ranges': 'bytes', 'content-length': BODY.length });
      response.write(BODY.subarray(0, 100_000), () => setTimeout(() => response.destroy(), 50));
    });
    expect(await fetchTo(store.url('/a'))).toBe(other.length);
    expect(await readFile(path)).toEqual(other);
  });

  it.each([
    ['another range', { 'content-range': 'bytes 5-9/300000' }],
    ['no range', {}],
  ])('does not join a rest that is %s', async (_what, headers) => {
    store.on('/a', (request, response, nth) => {
      if (nth === 1) {
        response.writeHead(200, { etag: '"e"', 'accept-ranges': 'bytes', 'content-length': BODY.length });
        response.write(BODY.subarray(0, 100_000), () => setTimeout(() => response.destroy(), 50));
      } else if (request.headers.range) response.writeHead(206, headers).end('wrong');
      else store.serve(request, response, BODY);
    });
    await fetchTo(store.url('/a'));
    expect(await readFile(path)).toEqual(BODY);
  });

  it.each([403, 404, 410])('does not ask again after %i', async (status) => {
    store.on('/a', (_request, response) => void response.writeHead(status).end());
    const error = await failure(fetchTo(store.url('/a?signature=secret')));
    expect(error).toMatchObject({ code: 'link_refused', retryable: false });
    expect(error.message).toContain(String(status));
    expect(error.message).not.toContain('secret');
    expect(store.count('/a')).toBe(1);
  });

  it('follows no redirect', async () => {
    store.objects.set('/b', BODY);
    store.on('/a', (_request, response) => void response.writeHead(302, { location: store.url('/b') }).end());
    expect((await failure(fetchTo(store.url('/a')))).message).toMatch(/302; redirects are not followed/);
    expect(store.count('/b')).toBe(0);
  });

  it.each(['file:///etc/passwd', 'ftp://127.0.0.1/x', 'data:text/plain,x', 'nonsense'])(
    'does not fetch %s',
    async (url) => {
      expect((await failure(fetchTo(url))).code).toBe('bad_link');
    },
  );

  it('refuses at once what says that it is too large', async () => {
    store.objects.set('/a', BODY);
    const error = await failure(fetchTo(store.url('/a'), { maxBytes: BODY.length - 1 }));
    expect(error).toMatchObject({ code: 'input_too_large', retryable: false });
    expect(store.count('/a')).toBe(1);
  });

  it('stops what grows too large without having said so', async () => {
    store.on('/a', (_request, response) => {
      response.writeHead(200);
      const more = () =>
        !response.destroyed && response.write(Buffer.alloc(65_536), () => setImmediate(more));
      more();
    });
    expect((await failure(fetchTo(store.url('/a'), { maxBytes: 500_000 }))).code).toBe('input_too_large');
    expect((await stat(path)).size).toBeLessThanOrEqual(500_000);
  });

  it('takes exactly as many bytes as allowed', async () => {
    store.objects.set('/a', BODY);
    expect(await fetchTo(store.url('/a'), { maxBytes: BODY.length })).toBe(BODY.length);
  });

  it('gives up after its tries when the body is always truncated', async () => {
    store.on('/a', (_request, response) => {
      response.writeHead(200, { 'content-length': BODY.length });
      response.write(BODY.subarray(0, 1_000), () => response.destroy());
    });
    const error = await failure(fetchTo(store.url('/a')));
    expect(error).toMatchObject({ code: 'transfer_failed', retryable: true });
    expect(store.count('/a')).toBe(LIMITS.tries);
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
    store.on('/a', handler as never);
    await impatiently(async (own) => {
      const error = await failure(fetchTo(store.url('/a'), { limits: IMPATIENT, dispatcher: own }));
      expect(error.code).toBe('transfer_failed');
    });
    expect(store.count('/a')).toBe(2);
  });

  it('gives up a body that only trickles', async () => {
    store.on('/a', (_request, response) => {
      response.writeHead(200);
      const timer = setInterval(() => response.write('x'), 20);
      response.on('close', () => clearInterval(timer));
    });
    const limits = { ...LIMITS, tries: 1, rateWindowMs: 300 };
    expect((await failure(fetchTo(store.url('/a'), { limits }))).message).toMatch(/slower than 1024 B\/s/);
  });

  it('says which host cannot be reached', async () => {
    const port = await freePort();
    const error = await failure(fetchTo(`http://127.0.0.1:${port}/a?signature=secret`));
    expect(error).toMatchObject({ code: 'transfer_failed' });
    expect(error.message).toContain(`127.0.0.1:${port}`);
    expect(error.message).not.toContain('secret');
    expect(retries).toBe(LIMITS.tries - 1);
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
    store.on('/a', (_request, response) => {
      if (afterMs === 0) return void response.writeHead(503).end();
      response.writeHead(200);
      response.write(Buffer.alloc(10));
    });
    const controller = new AbortController();
    const reason = new Error('stop');
    setTimeout(() => controller.abort(reason), 60);
    const limits = { ...LIMITS, tries: 1_000, idleMs: 5_000, pauseMs: 1_000, maxPauseMs: 1_000 };
    await expect(fetchTo(store.url('/a'), { signal: controller.signal, limits })).rejects.toBe(reason);
  });

  it('names a disk that cannot be written', async () => {
    store.objects.set('/a', BODY);
    await writeFile(path, '');
    const error = await failure(fetchTo(store.url('/a'), { path: join(path, 'below-a-file') }));
    expect(error).toMatchObject({ code: 'workdir_unusable', retryable: false });
  });

  it('names a disk that is full', async () => {
    store.objects.set('/a', BODY);
    expect((await failure(fetchTo(store.url('/a'), { path: '/dev/full' }))).code).toBe('disk_full');
  });
});

describe('storing', () => {
  const sink = (at: string, headers: Record<string, string> = {}) => ({
    contentType: 'image/png',
    url: store.url(at),
    headers,
    key: 'out/x.png',
  });
  const put = async (at: string, options: Partial<Parameters<typeof storeOutput>[0]> = {}) => {
    await writeFile(path, BODY);
    return storeOutput({
      path,
      sizeBytes: BODY.length,
      sink: sink(at),
      dispatcher,
      signal: new AbortController().signal,
      logger,
      limits: LIMITS,
      onRetry: () => void retries++,
      ...options,
    });
  };

  it('puts the file with its length, type and the signed headers', async () => {
    await put('/out', { sink: sink('/out', { 'x-signed': 'yes' }) });
    expect(store.stored.get('/out')).toMatchObject({
      bytes: BODY.length,
      sha256: await fileSha256(path, new AbortController().signal),
      headers: { 'content-type': 'image/png', 'x-signed': 'yes', 'content-length': String(BODY.length) },
    });
  });

  it('sends the content type once when it is signed', async () => {
    await put('/out', { sink: sink('/out', { 'Content-Type': 'image/png; x=1' }) });
    expect(store.stored.get('/out')?.headers['content-type']).toBe('image/png; x=1');
  });

  it('sends the whole file again after 500 and after a cut connection', async () => {
    store.on('/out', async (request, response, nth) => {
      if (nth === 1) return void response.writeHead(500).end();
      if (nth === 2) return void request.once('data', () => response.destroy());
      await store.take(request, '/out');
      response.writeHead(201).end();
    });
    await put('/out');
    expect(store.stored.get('/out')?.bytes).toBe(BODY.length);
    expect(retries).toBe(2);
  });

  it('does not insist where the link is refused', async () => {
    store.on('/out', (request, response) => {
      request.resume();
      response.writeHead(403).end('expired');
    });
    expect(await failure(put('/out'))).toMatchObject({ code: 'link_refused', retryable: false });
    expect(store.count('/out')).toBe(1);
  });

  it('gives up a store that never answers', async () => {
    store.on('/out', (request) => void request.resume());
    await impatiently(async (own) => {
      const error = await failure(put('/out', { limits: IMPATIENT, dispatcher: own }));
      expect(error.code).toBe('transfer_failed');
    });
    expect(store.count('/out')).toBe(2);
  });

  it('sends nothing more once aborted', async () => {
    const controller = new AbortController();
    const reason = new Error('fenced');
    store.on('/out', (request) => {
      request.resume();
      controller.abort(reason);
    });
    await expect(put('/out', { signal: controller.signal })).rejects.toBe(reason);
    expect(store.count('/out')).toBe(1);
  });
});
