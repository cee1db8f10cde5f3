import type { FileHandle } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import {
  bytes,
  type Container,
  type Piece,
  range,
  readExactly,
  UnmarkableFileError,
  uint32,
} from './container.ts';

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const XMP = Buffer.from('XML:com.adobe.xmp\0');
/** Chunk types that hold text: plain, compressed, or with a language. */
const TEXTS = ['tEXt', 'zTXt', 'iTXt'];
/** Bytes of length, type and checksum around the data of a chunk. */
const AROUND = 12;

/** Opens a PNG file. XMP goes into an iTXt chunk and the manifest into a caBX chunk, both right after the header. */
export async function openPng(file: FileHandle, size: number): Promise<Container> {
  const signature = await readExactly(file, 0, SIGNATURE.length);
  if (!signature.equals(SIGNATURE)) throw new UnmarkableFileError('not a PNG file');
  const head: Piece[] = [range(0, SIGNATURE.length)];
  const rest: Piece[] = [];
  let at = SIGNATURE.length;
  while (at < size) {
    const header = await readExactly(file, at, 8);
    const length = header.readUInt32BE(0) + AROUND;
    const type = header.toString('latin1', 4);
    if (at + length > size) throw new UnmarkableFileError(`the PNG chunk ${type} ends beyond the file`);
    if (head.length === 1) {
      if (type !== 'IHDR') throw new UnmarkableFileError('a PNG file begins with IHDR');
      head.push(range(at, length));
    } else if (!(await isOurs(file, at, type, length))) {
      append(rest, at, length);
    }
    at += length;
  }
  if (rest.length === 0) throw new UnmarkableFileError('a PNG file without a picture');

  return {
    binding: 'data',
    layout(xmp, manifestLength) {
      // The chunk is not compressed and has no language and no translated keyword.
      const metadata = chunk('iTXt', XMP, Buffer.alloc(4), xmp);
      const manifest: Piece[] =
        manifestLength === undefined ? [] : [{ kind: 'manifest', length: manifestLength + AROUND }];
      return { pieces: [...head, ...manifest, bytes(metadata), ...rest] };
    },
    wrap: (manifest) => chunk('caBX', manifest),
  };
}

async function isOurs(file: FileHandle, at: number, type: string, length: number): Promise<boolean> {
  if (type === 'caBX') return true;
  if (!TEXTS.includes(type) || length < AROUND + XMP.length) return false;
  return (await readExactly(file, at + 8, XMP.length)).equals(XMP);
}

/** A picture may have tens of thousands of chunks, so neighbouring chunks become one piece. */
function append(pieces: Piece[], start: number, length: number): void {
  const last = pieces.at(-1);
  if (last?.kind === 'range' && last.start + last.length === start) {
    pieces[pieces.length - 1] = range(last.start, last.length + length);
  } else pieces.push(range(start, length));
}

function chunk(type: string, ...parts: Uint8Array[]): Buffer {
  const data = Buffer.concat([Buffer.from(type, 'latin1'), ...parts]);
  return Buffer.concat([uint32(data.length - 4), data, uint32(crc32(data))]);
}
