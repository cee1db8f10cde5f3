/** The directory store of a gateway as other services use it: over HTTP, by links that they sign themselves. */
import { truncate } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { DamagedObjectError } from '@semblance/objects/footer';
import { GatewayStore } from '@semblance/objects/internal/gateway-store';
import { type LinkGrant, signLink } from '@semblance/objects/links';
import { ObjectNotFoundError } from '@semblance/objects/store';
import { startTestGateway, type TestGateway } from '@semblance/testkit/gateway/test-gateway';
import { objectStoreConformance } from '@semblance/testkit/objects/conformance';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const signingKey = Buffer.alloc(32, 7);
const storeAt = (t: TestGateway, key = signingKey) =>
  new GatewayStore({ url: t.origin, signingKey: key, publicUrl: t.origin });
const inTmp = async (t: TestGateway) =>
  (await t.files()).filter((path) => path.startsWith(`${t.folder}/tmp/`));
async function listed(store: GatewayStore, prefix: string): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of store.list(prefix)) keys.push(key);
  return keys;
}

objectStoreConformance('A directory behind a gateway, over HTTP', async () => {
  const t = await startTestGateway();
  const store = storeAt(t);
  return {
    store,
    // The gateway learns a moment after the sender that the sender broke off.
    async leftovers() {
      const until = Date.now() + 20_000;
      for (;;) {
        const files = await inTmp(t);
        if (files.length === 0 || Date.now() > until) return files;
        await delay(20);
      }
    },
    async close() {
      await store.close();
      await t.close();
    },
  };
});

describe('objects over HTTP', () => {
  let t: TestGateway;
  let store: GatewayStore;
  beforeAll(async () => {
    t = await startTestGateway();
    store = storeAt(t);
  });
  afterAll(async () => {
    await store.close();
    await t.close();
  });
  const put = (key: string, text = 'x', contentType = 'image/png') =>
    store.put(key, Readable.from([Buffer.from(text)]), { contentType });
  const signed = (grant: Omit<LinkGrant, 'expires'>, seconds = 60) =>
    t.origin + signLink(signingKey, { ...grant, expires: Math.floor(Date.now() / 1000) + seconds });

  it('gives back the content type as it was stored', async () => {
    await put('installation/1', 'x', 'text/plain');
    expect(await store.info('installation/1')).toEqual({ sizeBytes: 1, contentType: 'text/plain' });
  });

  it('tells an object that is damaged from one that may be had later', async () => {
    const others = new Set(await t.files());
    await put('api/damaged');
    for (const file of await t.files()) if (!others.has(file)) await truncate(file, 3);
    await expect(store.info('api/damaged')).rejects.toThrow(DamagedObjectError);
    await expect(store.info('api/absent')).rejects.toThrow(ObjectNotFoundError);
    // A damaged file is no object.
    expect(await listed(store, 'api/')).toEqual([]);
    await store.delete('api/damaged');
    await expect(store.info('api/damaged')).rejects.toThrow(ObjectNotFoundError);
  });

  it('takes links of the same signing key alone', async () => {
    await put('api/mine');
    const stranger = storeAt(t, Buffer.alloc(32, 8));
    for (const use of [
      stranger.info('api/mine'),
      stranger.delete('api/mine'),
      listed(stranger, ''),
      stranger.put('api/mine', Readable.from([Buffer.from('y')]), { contentType: 'image/png' }),
    ])
      await expect(use).rejects.toMatchObject({
        retryable: true,
        message: expect.stringMatching(/SEMBLANCE_OBJECTS_SIGNING_KEY is another/),
      });
    await stranger.close();
    expect((await store.info('api/mine')).sizeBytes).toBe(1);
  });

  it('deletes and lists by links of that method alone, and by none that hold for long', async () => {
    await put('api/kept');
    const reading = signed({ method: 'GET', key: 'api/kept' });
    expect((await fetch(reading, { method: 'DELETE' })).status).toBe(403);
    const remove = { method: 'DELETE', key: 'api/kept' } as const;
    expect((await fetch(signed(remove, 3_600), { method: 'DELETE' })).status).toBe(403);
    expect((await fetch(signed(remove))).status).toBe(403);
    const list = { method: 'LIST', key: 'api/' } as const;
    expect((await fetch(signed(list, 3_600))).status).toBe(403);
    expect((await fetch(signed(list).replace('prefix=api%2F', 'prefix='))).status).toBe(403);
    expect((await fetch(`${t.origin}/files`)).status).toBe(403);
    expect((await store.info('api/kept')).sizeBytes).toBe(1);
    expect((await fetch(signed(list))).status).toBe(200);
    expect((await fetch(signed(remove), { method: 'DELETE' })).status).toBe(204);
    await expect(store.info('api/kept')).rejects.toThrow(ObjectNotFoundError);
  });

  it('has no part in what the public is told of', async () => {
    const document = (await (await fetch(`${t.base}/openapi.json`)).json()) as { paths: object };
    expect(Object.keys(document.paths)).not.toContain('/files');
    const reading = await fetch(signed({ method: 'GET', key: 'installation/1' }));
    expect(reading.headers.get('semblance-object')).toBeNull();
    await reading.arrayBuffer();
  });
});
