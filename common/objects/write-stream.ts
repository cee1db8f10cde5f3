import type { FileHandle } from 'node:fs/promises';
import type { Readable } from 'node:stream';

/** Chunks are gathered to about this many bytes a write: few system calls, little memory. */
const BATCH_BYTES = 512 * 1024;

/**
 * Writes a stream to a file, gathering the next batch while one is being written. Holds two batches at most.
 * @returns bytes written
 */
export async function writeStream(handle: FileHandle, source: Readable): Promise<number> {
  let batch: Buffer[] = [];
  let batched = 0;
  let total = 0;
  let running: Promise<void> = Promise.resolve();
  const flush = async () => {
    await running;
    running = writeAll(handle, batch);
    // Awaited before the next batch; an error in between is not unhandled.
    running.catch(() => {});
    batch = [];
    batched = 0;
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
    await running.catch(() => {});
  }
  await running;
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
