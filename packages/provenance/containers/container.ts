import type { FileHandle } from 'node:fs/promises';

/** Stretch of the new file: bytes of the old file, new bytes, or the place reserved for the manifest. */
export type Piece =
  | { readonly kind: 'range'; readonly start: number; readonly length: number }
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
  | { readonly kind: 'manifest'; readonly length: number };

export interface Layout {
  readonly pieces: readonly Piece[];
  /** Positions in the new file of the top-level boxes that are hashed, for formats that are hashed box by box. */
  readonly hashedBoxes?: readonly number[];
}

/**
 * One parsed file, which is not held in memory. A layout describes the file with our metadata and a manifest.
 * Existing metadata and manifests describe another file, so they are dropped. Pictures and sound are copied byte by
 * byte.
 */
export interface Container {
  /** How the manifest is bound to the file: by a hash over all bytes except its own, or over the boxes. */
  readonly binding: 'data' | 'boxes';
  /** Returns the layout of the new file. @param manifestLength bytes of the manifest store; undefined: no manifest */
  layout(xmp: Uint8Array, manifestLength: number | undefined): Layout;
  /** Returns the manifest store with the framing of the format; it is as long as its piece of the layout. */
  wrap(manifest: Uint8Array): Uint8Array;
}

/** The file is not of its declared type, or it cannot be marked without re-encoding. */
export class UnmarkableFileError extends Error {
  override readonly name = 'UnmarkableFileError';
  readonly code = 'unmarkable_file';
  readonly retryable = false;
}

export function lengthOf(piece: Piece): number {
  return piece.kind === 'bytes' ? piece.bytes.length : piece.length;
}

export function bytes(...parts: Uint8Array[]): Piece {
  return { kind: 'bytes', bytes: Buffer.concat(parts) };
}

export function range(start: number, length: number): Piece {
  return { kind: 'range', start, length };
}

export function uint32(value: number): Buffer {
  const buffer = Buffer.alloc(4);
  buffer.writeUInt32BE(value);
  return buffer;
}

/** Returns exactly these bytes of the file. @throws UnmarkableFileError when the file ends before */
export async function readExactly(file: FileHandle, start: number, length: number): Promise<Buffer> {
  const buffer = Buffer.alloc(length);
  for (let done = 0; done < length; ) {
    const { bytesRead } = await file.read(buffer, done, length - done, start + done);
    if (bytesRead === 0) throw new UnmarkableFileError(`the file ends within ${length} bytes at ${start}`);
    done += bytesRead;
  }
  return buffer;
}
