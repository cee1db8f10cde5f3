import type { FileHandle } from 'node:fs/promises';
import type { Readable } from 'node:stream';

/** Chunks are gathered to about this many bytes a write: few system calls, little memory. */
const BATCH_BYTES = 512 * 1024;

/**
 * Bytes after which the disk is set to work, while more come in: a sync at the end then finds little left to do. Of
 * 500 MiB it took 223 to 254 ms without, 26 to 28 ms with it.
 */
const SYNC_BYTES = 64 * 1024 * 1024;

/**
 * Writes a stream to a file, gathering the next batch while one is being written. Holds two batches at most.
 * The caller syncs what was written last.
 * @returns bytes written
 */
export async function writeStream(handle: FileHandle, source: Readable): Promise<number> {
  let batch: Buffer[] = [];
  let batched = 0;
  let total = 0;
  let running: Promise<void> = Promise.resolve();
  let unsynced = 0;
  let syncing: Promise<void> | undefined;
  const flush = async () => {
    await running;
    running = writeAll(handle, batch);
    // Awaited before the next batch; an error in between is not unhandled.
    running.catch(() => {});
    unsynced += batched;
    batch = [];
    batched = 0;
    if (unsynced < SYNC_BYTES) return;
    // The kernel tells of a failed write-back once: the error of every sync counts.
    await syncing;
    syncing = handle.datasync();
    syncing.catch(() => {});
    unsynced = 0;
  };
  try {
    for await (const chunk of source) {
      const bytes = chunk as Buffer;
      batch.push(bytes);
      batched += bytes.length;
      total += bytes.length;
      if (batched >= BATCH_BYTES) await flush();
    }
    if (batched > 0) await flush();
  } finally {
    // The file must not be closed under a write, whatever ended the source.
    await Promise.allSettled([running, syncing]);
  }
  await running;
  await syncing;
  return total;
}

/** writev may stop short (a signal, a nearly full disk): goes on until all is written or it fails. */
export async function writeAll(handle: FileHandle, buffers: Buffer[]): Promise<void> {
  let rest = buffers;
  while (rest.length > 0) {
    let { bytesWritten } = await handle.writev(rest);
    while (rest[0] && bytesWritten >= rest[0].length) {
      bytesWritten -= rest[0].length;
      rest = rest.slice(1);
    }
    if (bytesWritten > 0 && rest[0]) rest = [rest[0].subarray(bytesWritten), ...rest.slice(1)];
  }
}
