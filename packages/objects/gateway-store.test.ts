import { randomBytes } from 'node:crypto';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { GatewayStore } from './gateway-store.ts';
import { ObjectNotFoundError, type ObjectStore, ObjectStoreError } from './store.ts';

const close: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of close.splice(0).reverse()) await end();
});

/** Returns a store whose gateway answers with `listener`. */
async function storeBefore(listener: RequestListener, idleMs?: number): Promise<ObjectStore> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  close.push(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return at((server.address() as AddressInfo).port, idleMs);
}

function at(port: number, idleMs?: number): ObjectStore {
  const store = new GatewayStore({
    url: `http://127.0.0.1:${port}`,
    signingKey: Buffer.alloc(32),
    publicUrl: 'http://gateway.test',
    ...(idleMs === undefined ? {} : { idleMs }),
  });
  close.push(() => store.close());
  return store;
}

async function listed(store: ObjectStore): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of store.list('api/')) keys.push(key);
  return keys;
}

const everyUse: [string, (store: ObjectStore) => Promise<unknown>][] = [
  ['put', (store) => store.put('api/x', Readable.from([Buffer.from('x')]), { contentType: 'image/png' })],
  ['info', (store) => store.info('api/x')],
  ['delete', (store) => store.delete('api/x')],
  ['list', (store) => listed(store)],
];

async function failureOf(use: Promise<unknown>): Promise<Error & { retryable?: boolean }> {
  return use.then(
    () => expect.fail('it did not fail'),
    (error) => error,
  );
}

describe.each(everyUse)('a gateway in trouble: %s', (_name, use) => {
  it('that is away is said, and may be back', async () => {
    const store = at(1);
    const error = await failureOf(use(store));
    expect(error).toBeInstanceOf(ObjectStoreError);
    expect(error).toMatchObject({ retryable: true, code: 'object_store_unavailable' });
    expect(error.message).toBe('the gateway at http://127.0.0.1:1 does not answer');
    expect((error.cause as NodeJS.ErrnoException).code).toBe('ECONNREFUSED');
  });

  it('that is silent is given up', async () => {
    const store = await storeBefore((request) => request.resume(), 100);
    const error = await failureOf(use(store));
    expect(error).toMatchObject({ retryable: true, cause: { message: 'silent for 100 ms' } });
  });

  it('that breaks off in its answer has not answered', async () => {
    const store = await storeBefore((request, response) => {
      request.resume();
      response.writeHead(200, { 'content-length': 100 }).write('{');
      setTimeout(() => response.destroy(), 20);
    });
    expect(await failureOf(use(store))).toMatchObject({ retryable: true });
  });

  it.each([200, 204, 404, 403, 500, 503])(
    'that answers %i as something else would is not believed',
    async (status) => {
      const store = await storeBefore((request, response) => {
        request.resume();
        response.writeHead(status, { 'content-type': 'application/json' }).end(status === 204 ? '' : '{}');
      });
      const error = await failureOf(use(store));
      expect(error).not.toBeInstanceOf(ObjectNotFoundError);
      expect(error).toMatchObject({ retryable: true });
    },
  );
});

it('says whose fault a refused link is', async () => {
  const store = await storeBefore((_request, response) => response.writeHead(403).end());
  expect((await failureOf(store.delete('api/x'))).message).toMatch(
    /SEMBLANCE_OBJECTS_SIGNING_KEY is another/,
  );
});

it('stops sending when it is answered early, and lets the source go', async () => {
  const store = await storeBefore((_request, response) => response.writeHead(500).end('full'));
  const source = new Readable({
    read() {
      setImmediate(() => this.push(randomBytes(65_536)));
    },
  });
  const error = await failureOf(store.put('api/x', source, { contentType: 'image/png' }));
  expect(error).toMatchObject({ retryable: true });
  expect(source.destroyed).toBe(true);
});

it('takes no success for a body that it has not sent to its end', async () => {
  const store = await storeBefore((_request, response) =>
    response.writeHead(200, { 'semblance-object': 'stored' }).end(),
  );
  const source = new Readable({ read() {} });
  source.push('some');
  const error = await failureOf(store.put('api/x', source, { contentType: 'image/png' }));
  expect(error).toMatchObject({ retryable: true, cause: { message: 'it answered before it was asked' } });
});

it('reads no more of a source than the gateway takes, but for what is on the way', async () => {
  // The gateway takes nothing until `take` is called; data read meanwhile are in buffers of this process and the
  // kernel.
  let take = () => {};
  const store = await storeBefore((request, response) => {
    take = () => request.resume();
    request.on('end', () => response.writeHead(200, { 'semblance-object': 'stored' }).end());
  });
  const size = 64 * 1024 * 1024;
  let made = 0;
  const source = new Readable({
    read() {
      made += 65_536;
      this.push(made <= size ? Buffer.alloc(65_536) : null);
    },
  });
  const putting = store.put('api/x', source, { contentType: 'image/png' });
  let seen = -1;
  // This waits until the source is read no further.
  while (seen !== made) {
    seen = made;
    await delay(200);
  }
  expect(made).toBeLessThan(size / 2);
  take();
  expect(await putting).toEqual({ sizeBytes: size });
});

it.each([
  ['no JSON', '<html>'],
  ['no list', '{"objects": 3}'],
  ['a list of something else', '{"objects": [{"key": "api/x"}]}'],
])('takes %s for no list', async (_name, body) => {
  const store = await storeBefore((_request, response) => response.writeHead(200).end(body));
  const error = await failureOf(listed(store));
  expect(error).toMatchObject({
    retryable: true,
    message: expect.stringMatching(/did not answer with a list/),
  });
});
