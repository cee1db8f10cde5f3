import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { type Layout, lengthOf, type Piece, UnmarkableFileError } from './containers/container.ts';

/** Most bytes held in memory while a file is hashed or copied. */
const BLOCK = 1024 * 1024;

/** Returns the position of the manifest in the new file. */
export function manifestSpan(layout: Layout): { start: number; length: number } | undefined {
  let at = 0;
  for (const piece of layout.pieces) {
    if (piece.kind === 'manifest') return { start: at, length: piece.length };
    at += lengthOf(piece);
  }
  return undefined;
}

/** Returns the SHA-256 over the new file without the manifest, for a `c2pa.hash.data` assertion. */
export async function dataHash(file: FileHandle, layout: Layout, signal: AbortSignal): Promise<Uint8Array> {
  const hash = createHash('sha256');
  for (const piece of layout.pieces) {
    if (piece.kind === 'manifest') continue;
    for await (const block of blocks(file, piece, signal)) hash.update(block);
  }
  return hash.digest();
}

/**
 * Returns the SHA-256 for a `c2pa.hash.bmff.v3` assertion. It covers the top-level boxes, each preceded by its
 * position in the file as eight bytes, without the file type box and the manifest.
 */
export async function boxesHash(file: FileHandle, layout: Layout, signal: AbortSignal): Promise<Uint8Array> {
  const hash = createHash('sha256');
  const hashed = new Set(layout.hashedBoxes);
  let at = 0;
  for (const piece of layout.pieces) {
    if (hashed.has(at)) {
      const place = Buffer.alloc(8);
      place.writeBigUInt64BE(BigInt(at));
      hash.update(place);
      for await (const block of blocks(file, piece, signal)) hash.update(block);
    }
    at += lengthOf(piece);
  }
  return hash.digest();
}

/** Writes the new file. @param manifest in the form that the container wraps it in */
export async function assemble(
  file: FileHandle,
  layout: Layout,
  manifest: Uint8Array | undefined,
  target: FileHandle,
  signal: AbortSignal,
): Promise<void> {
  for (const piece of layout.pieces) {
    if (piece.kind !== 'manifest') {
      for await (const block of blocks(file, piece, signal)) await writeAll(target, block);
      continue;
    }
    if (manifest?.length !== piece.length) {
      throw new Error(`a manifest of ${manifest?.length} bytes for a place of ${piece.length}`);
    }
    await writeAll(target, manifest);
  }
}

async function writeAll(target: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    done += (await target.write(bytes, done, bytes.length - done)).bytesWritten;
  }
}

/** Yields the bytes of a piece in blocks. A block is valid until the next one is requested. */
async function* blocks(file: FileHandle, piece: Piece, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  if (piece.kind === 'bytes') yield piece.bytes;
  if (piece.kind !== 'range') return;
  const buffer = Buffer.allocUnsafe(Math.min(BLOCK, piece.length));
  for (let done = 0; done < piece.length; ) {
    signal.throwIfAborted();
    const wanted = Math.min(buffer.length, piece.length - done);
    const { bytesRead } = await file.read(buffer, 0, wanted, piece.start + done);
    if (bytesRead === 0) throw new UnmarkableFileError('the file became shorter while it was read');
    yield buffer.subarray(0, bytesRead);
    done += bytesRead;
  }
}
