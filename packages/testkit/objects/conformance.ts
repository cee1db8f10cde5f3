import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { ObjectNotFoundError, type ObjectStore } from '@semblance/objects/store';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

export interface StoreUnderTest {
  readonly store: ObjectStore;
  /** Returns the names of everything that a failed write left behind; empty means clean. */
  leftovers(): Promise<string[]>;
  close(): Promise<void>;
}

/** Registers tests of the behaviour of every object store. Links are followed over HTTP. */
export function objectStoreConformance(
  name: string,
  open: () => Promise<StoreUnderTest>,
  startMs = 30_000,
): void {
  describe(`${name} keeps the contract of an object store`, () => {
    let t: StoreUnderTest;
    let store: ObjectStore;
    beforeAll(async () => {
      t = await open();
      store = t.store;
    }, startMs);
    afterAll(async () => {
      expect(await t.leftovers()).toEqual([]);
      await t.close();
    });

    const put = (key: string, bytes: Buffer, contentType = 'image/png') =>
      store.put(key, Readable.from(bytes.length > 0 ? [bytes] : [], { objectMode: false }), { contentType });
    const read = async (key: string) => {
      const response = await fetch(await store.signGet(key, { expiresInSeconds: 60 }));
      return { status: response.status, bytes: Buffer.from(await response.arrayBuffer()), response };
    };

    it.each([0, 1, 70_000, 6 * 1024 * 1024, 20 * 1024 * 1024 + 7])('gives back %i bytes', async (size) => {
      const bytes = randomBytes(size);
      expect(await put('api/some/key', bytes, 'video/mp4')).toEqual({ sizeBytes: size });
      expect(await store.info('api/some/key')).toEqual({ sizeBytes: size, contentType: 'video/mp4' });
      const got = await read('api/some/key');
      expect(got.status).toBe(200);
      expect(got.response.headers.get('content-type')).toBe('video/mp4');
      expect(got.bytes.equals(bytes)).toBe(true);
      const parts: Buffer[] = [];
      for await (const part of await store.read('api/some/key')) parts.push(part as Buffer);
      expect(Buffer.concat(parts).equals(bytes)).toBe(true);
    });

    it('reads nothing of an object that is not there', async () => {
      await expect(store.read('api/never')).rejects.toBeInstanceOf(ObjectNotFoundError);
    });

    it('replaces what was under a key, type included', async () => {
      await put('api/twice', Buffer.from('first one'), 'image/png');
      await put('api/twice', Buffer.from('second'), 'image/webp');
      expect(await store.info('api/twice')).toEqual({ sizeBytes: 6, contentType: 'image/webp' });
      expect((await read('api/twice')).bytes.toString()).toBe('second');
    });

    it('takes the longest key', async () => {
      const key = `api/${'k'.repeat(200)}/${'l'.repeat(200)}`;
      await put(key, Buffer.from('x'));
      expect((await read(key)).bytes.toString()).toBe('x');
    });

    it('deletes, also what is not there', async () => {
      await put('api/gone', Buffer.from('x'));
      await store.delete('api/gone');
      await store.delete('api/gone');
      await expect(store.info('api/gone')).rejects.toThrow(ObjectNotFoundError);
      expect((await read('api/gone')).status).toBe(404);
    });

    it('lists what is stored under a prefix, with sizes and times, page after page', async () => {
      const keys = Array.from({ length: 1_050 }, (_, i) => `listed/some/${i}`);
      for (let i = 0; i < keys.length; i += 50)
        await Promise.all(keys.slice(i, i + 50).map((key) => put(key, Buffer.alloc(3))));
      await put('listed-not/1', Buffer.from('x'));
      await store.delete('listed/some/7');
      const began = Date.now();
      const found = new Map<string, { sizeBytes: number; storedAt: Date }>();
      for await (const { key, ...rest } of store.list('listed/')) {
        expect(found.has(key), key).toBe(false);
        found.set(key, rest);
      }
      expect([...found.keys()].sort()).toEqual(keys.filter((key) => key !== 'listed/some/7').sort());
      for (const { sizeBytes, storedAt } of found.values()) {
        expect(sizeBytes).toBe(3);
        expect(Math.abs(began - storedAt.getTime())).toBeLessThan(120_000);
      }
      const none: string[] = [];
      for await (const { key } of store.list('never/')) none.push(key);
      expect(none).toEqual([]);
      for (let i = 0; i < keys.length; i += 50)
        await Promise.all(keys.slice(i, i + 50).map((key) => store.delete(key)));
    });

    it('knows nothing of a key never written', async () => {
      await expect(store.info('api/never')).rejects.toThrow(ObjectNotFoundError);
    });

    it('refuses what is no key', async () => {
      for (const key of ['', '/a', 'a/', '../a', 'a/../b', 'a b', 'a\0b', 'a?b', 'x'.repeat(513)]) {
        await expect(put(key, Buffer.from('x')), key).rejects.toThrow(RangeError);
        await expect(store.signGet(key, { expiresInSeconds: 60 })).rejects.toThrow(RangeError);
      }
    });

    it.each([0, 100_000, 12 * 1024 * 1024])(
      'stores nothing when the source fails after %i bytes',
      async (size) => {
        const fault = new Error('the source broke');
        async function* source() {
          for (let sent = 0; sent < size; sent += 50_000) yield randomBytes(50_000);
          throw fault;
        }
        const stream = Readable.from(source(), { objectMode: false });
        await expect(store.put('api/broken', stream, { contentType: 'image/png' })).rejects.toBe(fault);
        await expect(store.info('api/broken')).rejects.toThrow(ObjectNotFoundError);
      },
    );

    it('keeps the old object when its replacement fails', async () => {
      await put('api/kept', Buffer.from('old'));
      async function* source() {
        yield Buffer.from('new');
        throw new Error('half-way');
      }
      const stream = Readable.from(source(), { objectMode: false });
      await expect(store.put('api/kept', stream, { contentType: 'image/png' })).rejects.toThrow('half-way');
      expect((await read('api/kept')).bytes.toString()).toBe('old');
    });

    it('stores nothing of a source destroyed half-way', async () => {
      const stream = new Readable({ read() {} });
      stream.push(randomBytes(1000));
      const putting = store.put('api/destroyed', stream, { contentType: 'image/png' });
      setTimeout(() => stream.destroy(), 20);
      await expect(putting).rejects.toThrow();
      await expect(store.info('api/destroyed')).rejects.toThrow(ObjectNotFoundError);
    });

    it('stores nothing when aborted, before or while it reads', async () => {
      const never = () => new Readable({ read() {} });
      const aborted = AbortSignal.abort(new Error('stop'));
      const options = { contentType: 'image/png' };
      await expect(store.put('api/aborted', never(), { ...options, signal: aborted })).rejects.toThrow(
        'stop',
      );
      const controller = new AbortController();
      const stream = never();
      stream.push(randomBytes(1000));
      const putting = store.put('api/aborted', stream, { ...options, signal: controller.signal });
      setTimeout(() => controller.abort(new Error('stop')), 20);
      await expect(putting).rejects.toThrow();
      await expect(store.info('api/aborted')).rejects.toThrow(ObjectNotFoundError);
    });

    it('lets concurrent writers of one key end in one whole object', async () => {
      const versions = Array.from({ length: 5 }, (_, i) => Buffer.alloc(300_000, i));
      await Promise.all(versions.map((bytes) => put('api/raced', bytes)));
      const { bytes } = await read('api/raced');
      expect(versions.some((version) => version.equals(bytes))).toBe(true);
    });

    it('signs the same link for the same moment', async () => {
      const at = { expiresInSeconds: 600, signedAt: new Date(Math.floor(Date.now() / 1000) * 1000) };
      expect(await store.signGet('api/k', at)).toBe(await store.signGet('api/k', at));
      const putAt = { ...at, contentType: 'image/png', maxBytes: 10 };
      expect(await store.signPut('api/k', putAt)).toEqual(await store.signPut('api/k', putAt));
    });

    it('serves ranges and HEAD by link', async () => {
      await put('api/ranged', Buffer.from('0123456789'));
      const url = await store.signGet('api/ranged', { expiresInSeconds: 60 });
      const part = await fetch(url, { headers: { range: 'bytes=2-4' } });
      expect(part.status).toBe(206);
      expect(part.headers.get('content-range')).toBe('bytes 2-4/10');
      expect(await part.text()).toBe('234');
    });

    it('refuses links that expired or were changed', async () => {
      await put('api/private', Buffer.from('x'));
      const past = { expiresInSeconds: 10, signedAt: new Date(Date.now() - 60_000) };
      expect((await fetch(await store.signGet('api/private', past))).status).toBe(403);
      const url = await store.signGet('api/private', { expiresInSeconds: 60 });
      expect((await fetch(url.replace('api/private', 'api/kept'))).status).toBe(403);
      const bare = url.slice(0, url.indexOf('?'));
      expect((await fetch(bare)).status).toBe(403);
      expect((await fetch(url, { method: 'PUT', body: 'y' })).status).toBe(403);
    });

    it('takes a PUT by link with its content type alone', async () => {
      const options = { expiresInSeconds: 60, contentType: 'image/png', maxBytes: 1_000_000 };
      const { url, headers } = await store.signPut('outputs/job-1', options);
      const bytes = randomBytes(200_000);
      expect((await fetch(url, { method: 'PUT', body: bytes, headers })).status).toBe(200);
      expect(await store.info('outputs/job-1')).toEqual({ sizeBytes: 200_000, contentType: 'image/png' });
      expect((await read('outputs/job-1')).bytes.equals(bytes)).toBe(true);
      const other = await fetch(url, { method: 'PUT', body: 'x', headers: { 'content-type': 'text/html' } });
      expect(other.ok).toBe(false);
      expect((await store.info('outputs/job-1')).sizeBytes).toBe(200_000);
      expect((await fetch(url)).status).toBe(403);
    });
  });
}
