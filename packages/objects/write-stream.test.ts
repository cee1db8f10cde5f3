import { createHash } from 'node:crypto';
import { type FileHandle, mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { writeStream } from './write-stream.ts';

const MIB = 1024 * 1024;
let dir: string;
let path: string;
let handle: FileHandle;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-write-'));
  path = join(dir, 'file');
  handle = await open(path, 'w');
});
afterEach(async () => {
  vi.restoreAllMocks();
  await handle.close();
  await rm(dir, { recursive: true, force: true });
});

function* chunks(count: number, bytes: number): Generator<Buffer> {
  for (let i = 0; i < count; i++) yield Buffer.alloc(bytes, i);
}

it.each([
  ['nothing', 0, 1],
  ['less than a batch', 3, 1_000],
  ['odd chunks', 700, 4_099],
  ['chunks larger than a batch', 3, 3 * MIB + 1],
])('writes what comes, in order: %s', async (_, count, bytes) => {
  expect(await writeStream(handle, Readable.from(chunks(count, bytes)))).toBe(count * bytes);
  const sum = createHash('sha256');
  for (const chunk of chunks(count, bytes)) sum.update(chunk);
  const written = createHash('sha256')
    .update(await readFile(path))
    .digest('hex');
  expect(written).toBe(sum.digest('hex'));
});

it('sets the disk to work while a large file comes in, and waits for it', async () => {
  const sync = handle.datasync.bind(handle);
  let running = 0;
  const spy = vi.spyOn(handle, 'datasync').mockImplementation(async () => {
    running++;
    await sync();
    running--;
  });
  expect(await writeStream(handle, Readable.from(chunks(140, MIB)))).toBe(140 * MIB);
  expect(spy).toHaveBeenCalledTimes(2);
  expect(running).toBe(0);
});

it('fails when what was written does not reach the disk', async () => {
  vi.spyOn(handle, 'datasync').mockRejectedValueOnce(new Error('EIO: i/o error, fdatasync'));
  await expect(writeStream(handle, Readable.from(chunks(140, MIB)))).rejects.toThrow('EIO');
});

it('ends no sync half-way when the source breaks', async () => {
  let running = false;
  const sync = handle.datasync.bind(handle);
  vi.spyOn(handle, 'datasync').mockImplementation(async () => {
    running = true;
    await sync();
    running = false;
  });
  function* broken() {
    yield* chunks(65, MIB);
    throw new Error('the client went');
  }
  await expect(writeStream(handle, Readable.from(broken()))).rejects.toThrow('the client went');
  expect(handle.datasync).toHaveBeenCalledOnce();
  expect(running).toBe(false);
});
