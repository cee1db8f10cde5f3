import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { appendFile, mkdtemp, readdir, rm, stat, truncate, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DirectoryStore, type OpenObject } from './directory-store.ts';
import { DamagedObjectError } from './footer.ts';

let folder: string;
let store: DirectoryStore;
const open = () =>
  new DirectoryStore({
    folder,
    signingKey: Buffer.alloc(32, 1),
    publicUrl: 'https://api.example.com',
    internalUrl: 'http://gateway.internal:8080',
  });
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'semblance-store-'));
  store = open();
});
afterEach(async () => {
  await store.close();
  await rm(folder, { recursive: true, force: true });
});

const put = (key: string, text: string) =>
  store.put(key, Readable.from([Buffer.from(text)]), { contentType: 'image/png' });
const temporary = () => readdir(join(folder, 'tmp'));
const read = async (key: string) => {
  const object = await store.open(key);
  return textOf(object);
};
/** Reads an opened object and closes it. */
async function textOf(object: OpenObject, range?: { start: number; end: number }): Promise<string> {
  let text = '';
  for await (const piece of object.pieces(range)) text += piece.toString();
  await object.close();
  return text;
}

describe('DirectoryStore', () => {
  it('keeps apart keys that are prefixes of each other', async () => {
    await put('api/a', 'a');
    await put('api/a/b', 'b');
    expect([await read('api/a'), await read('api/a/b')]).toEqual(['a', 'b']);
  });

  it('is shared by all that open the folder', async () => {
    await put('api/x', 'one');
    const other = open();
    expect(await other.info('api/x')).toEqual({ sizeBytes: 3, contentType: 'image/png' });
    await other.delete('api/x');
    await other.close();
    await expect(store.info('api/x')).rejects.toMatchObject({ code: 'object_not_found' });
  });

  it('reads an opened object as it was, whatever happens to it meanwhile', async () => {
    await put('api/x', 'before');
    const object = await store.open('api/x');
    await put('api/x', 'after');
    await store.delete('api/x');
    expect(await textOf(object, { start: 1, end: 3 })).toBe('efo');
  });

  it('reads large objects in pieces of one memory, and says when a file became shorter', async () => {
    const bytes = randomBytes(200_000);
    await store.put('api/large', Readable.from([bytes]), { contentType: 'video/mp4' });
    const object = await store.open('api/large');
    const memories = new Set<ArrayBufferLike>();
    const read: Buffer[] = [];
    for await (const piece of object.pieces({ start: 10, end: 150_000 })) {
      memories.add(piece.buffer);
      read.push(Buffer.from(piece));
    }
    expect(Buffer.concat(read).equals(bytes.subarray(10, 150_001))).toBe(true);
    expect(memories.size).toBe(1);
    await expect(async () => {
      for await (const _ of object.pieces({ start: 0, end: 1_000_000 }));
    }).rejects.toThrow('shorter than it was');
    await object.close();
  });

  it('signs for clients outside and for agents inside', async () => {
    const at = { expiresInSeconds: 10, signedAt: new Date(1_700_000_000_000) };
    const outside = new URL(await store.signGet('api/x', at));
    const inside = new URL(await store.signGet('api/x', { ...at, audience: 'internal' }));
    expect(outside.origin).toBe('https://api.example.com');
    expect(inside.origin).toBe('http://gateway.internal:8080');
    expect(outside.search).toBe(inside.search);
    expect(outside.searchParams.get('expires')).toBe('1700000010');
  });

  it('notices a file that was cut or written to from outside', async () => {
    await put('api/x', 'x'.repeat(100));
    const [path = ''] = (await readdir(join(folder, 'objects'), { recursive: true }))
      .map((name) => join(folder, 'objects', name))
      .filter((name) => name.length > folder.length + 60);
    await appendFile(path, 'more');
    await expect(store.open('api/x')).rejects.toThrow(DamagedObjectError);
    await truncate(path, 3);
    await expect(store.open('api/x')).rejects.toThrow(DamagedObjectError);
    await truncate(path, 0);
    await expect(store.open('api/x')).rejects.toThrow(DamagedObjectError);
  });

  it('leaves no open files behind, however reading ends', async () => {
    const openFiles = async () => (await readdir('/proc/self/fd')).length;
    await put('api/x', 'x'.repeat(1_000_000));
    await read('api/x');
    const before = await openFiles();
    for (let i = 0; i < 20; i++) {
      await store.info('api/x');
      await expect(store.open('api/unknown')).rejects.toThrow();
      const object = await store.open('api/x');
      for await (const _ of object.pieces()) break;
      await object.close();
    }
    await expect.poll(openFiles).toBeLessThanOrEqual(before);
  });
});

describe('files of writers that died', () => {
  it('of this machine go as soon as the store is opened again; those of the living stay', async () => {
    const module = fileURLToPath(new URL('./directory-store.ts', import.meta.url));
    const script = `
      import { DirectoryStore } from ${JSON.stringify(module)};
      import { Readable } from 'node:stream';
      const store = new DirectoryStore({ folder: process.argv[1], signingKey: Buffer.alloc(16), publicUrl: 'http://x' });
      const source = new Readable({ read() {} });
      source.push(Buffer.alloc(3_000_000));
      store.put('api/never', source, { contentType: 'image/png' });
      setInterval(() => {}, 1_000);`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script, folder], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const written = async () => {
      const [name] = await temporary();
      return name === undefined ? 0 : (await stat(join(folder, 'tmp', name))).size;
    };
    await expect.poll(written).toBeGreaterThan(1_000_000);
    const [name = ''] = await temporary();

    const meanwhile = open();
    await meanwhile.close();
    expect(await temporary()).toEqual([name]);

    child.kill('SIGKILL');
    await once(child, 'exit');
    const after = open();
    await after.close();
    expect(await temporary()).toEqual([]);
    await expect(after.info('api/never')).rejects.toMatchObject({ code: 'object_not_found' });
  });

  it('of another machine go once nobody has written to them for long', async () => {
    const fresh = join(folder, 'tmp', '0123456789abcdef.1.1.aaa');
    const old = join(folder, 'tmp', '0123456789abcdef.1.1.bbb');
    await writeFile(fresh, 'x');
    await writeFile(old, 'x');
    const hourAgo = Date.now() / 1000 - 3600;
    await utimes(old, hourAgo, hourAgo);
    const again = open();
    await again.close();
    expect(await temporary()).toEqual(['0123456789abcdef.1.1.aaa']);
  });
});
