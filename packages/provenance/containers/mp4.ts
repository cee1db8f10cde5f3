import type { FileHandle } from 'node:fs/promises';
import {
  bytes,
  type Container,
  lengthOf,
  type Piece,
  range,
  readExactly,
  UnmarkableFileError,
  uint32,
} from './container.ts';
import { shiftChunks } from './mp4-offsets.ts';

const C2PA_UUID = Buffer.from('d8fec3d61b0e483c92975828877ec481', 'hex');
const XMP_UUID = Buffer.from('be7acfcb97a942e89c71999491e3afac', 'hex');
/** Version and flags, the purpose of the box, and the position of further boxes (none). */
const C2PA_HEADER = Buffer.concat([Buffer.alloc(4), Buffer.from('manifest\0'), Buffer.alloc(8)]);
/** Largest index held in memory, in bytes: enough for a day of film at 60 frames per second. */
const MOOV_MOST = 128 * 1024 * 1024;
const BOXES_MOST = 1_000;

interface TopBox {
  readonly type: string;
  readonly start: number;
  readonly length: number;
  readonly uuid?: Buffer;
}

/**
 * Opens an MP4 file. The manifest and the XMP go into uuid boxes right after the file type box. Only the index
 * (moov) is held in memory, because it contains file positions that move.
 */
export async function openMp4(file: FileHandle, size: number): Promise<Container> {
  const boxes = await topBoxes(file, size);
  if (boxes[0]?.type !== 'ftyp') throw new UnmarkableFileError('not an MP4 file');
  const kept = boxes.filter(({ uuid }) => !(uuid?.equals(C2PA_UUID) || uuid?.equals(XMP_UUID)));
  const fragment = kept.find(({ type }) => type === 'moof' || type === 'mfra');
  // A fragmented file holds positions outside the index too, so it is refused.
  if (fragment) throw new UnmarkableFileError('an MP4 file in fragments');
  const index = kept.find(({ type }) => type === 'moov');
  if (!index) throw new UnmarkableFileError('an MP4 file without an index');
  if (index.length > MOOV_MOST) throw new UnmarkableFileError('the index of the MP4 file is too large');
  const moov = await readExactly(file, index.start, index.length);

  return {
    binding: 'boxes',
    layout(xmp, manifestLength) {
      const [type, ...others] = kept;
      if (!type) throw new UnmarkableFileError('not an MP4 file');
      const pieces: Piece[] = [range(type.start, type.length)];
      if (manifestLength !== undefined) {
        pieces.push({ kind: 'manifest', length: 24 + C2PA_HEADER.length + manifestLength });
      }
      pieces.push(bytes(uuidBox(XMP_UUID, xmp)));
      let at = pieces.reduce((sum, piece) => sum + lengthOf(piece), 0);
      const moves: { start: number; end: number; by: number }[] = [];
      const places = [at - lengthOf(pieces.at(-1) as Piece)];
      for (const { start, length } of others) {
        moves.push({ start, end: start + length, by: at - start });
        places.push(at);
        at += length;
      }
      const shifted = shiftChunks(moov, (place) => {
        const move = moves.find(({ start, end }) => start <= place && place < end);
        if (!move) throw new UnmarkableFileError('the index of the MP4 file points out of it');
        return place + move.by;
      });
      for (const box of others) pieces.push(box === index ? bytes(shifted) : range(box.start, box.length));
      return { pieces, hashedBoxes: places };
    },
    wrap: (manifest) => uuidBox(C2PA_UUID, C2PA_HEADER, manifest),
  };
}

async function topBoxes(file: FileHandle, size: number): Promise<TopBox[]> {
  const boxes: TopBox[] = [];
  for (let at = 0; at < size; ) {
    if (boxes.length === BOXES_MOST) throw new UnmarkableFileError('an MP4 file of too many boxes');
    const header = await readExactly(file, at, Math.min(32, size - at));
    if (header.length < 8) throw new UnmarkableFileError('an MP4 file ends within a box');
    const type = header.toString('latin1', 4, 8);
    const short = header.readUInt32BE(0);
    if (short === 1 && header.length < 16) throw new UnmarkableFileError('an MP4 file ends within a box');
    // 1: a 64-bit length follows. 0: the box reaches to the end of the file.
    const length = short === 1 ? Number(header.readBigUInt64BE(8)) : short === 0 ? size - at : short;
    if (length < 8 || at + length > size)
      throw new UnmarkableFileError(`the MP4 box ${type} ends beyond the file`);
    const uuidAt = short === 1 ? 16 : 8;
    const uuid = type === 'uuid' ? header.subarray(uuidAt, uuidAt + 16) : undefined;
    boxes.push({ type, start: at, length, ...(uuid ? { uuid } : {}) });
    at += length;
  }
  return boxes;
}

function uuidBox(uuid: Uint8Array, ...parts: Uint8Array[]): Buffer {
  const payload = Buffer.concat([Buffer.from('uuid'), uuid, ...parts]);
  return Buffer.concat([uint32(payload.length + 4), payload]);
}
