import type { FileHandle } from 'node:fs/promises';
import type { Readable } from 'node:stream';

/** Bytes gathered for one write, which needs few system calls and little memory. */
const BATCH_BYTES = 512 * 1024;

/** Bytes after which writing back to disk starts in the background, so that the sync at the end is short. */
const SYNC_BYTES = 64 * 1024 * 1024;

/**
 * Writes a stream to a file, gathering the next batch while one is written. Holds at most two batches. The caller
 * syncs the last bytes.
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
    // The next batch awaits it; until then its error must not be unhandled.
    running.catch(() => {});
    unsynced += batched;
    batch = [];
    batched = 0;
    if (unsynced < SYNC_BYTES) return;
    // The kernel reports a failed write-back once, so the error of every sync counts.
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
    // The file must not be closed during a write, whatever ended the source.
    await Promise.allSettled([running, syncing]);
  }
  await running;
  await syncing;
  return total;
}

/**
 * Writes all buffers. writev may stop short (a signal, a nearly full disk), so it is repeated until everything is
 * written or it fails.
 */
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
