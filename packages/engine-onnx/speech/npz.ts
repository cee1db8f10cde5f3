import { inflateRawSync } from 'node:zlib';

/** The file is no .npz, or has content of another kind. */
export class NpzError extends Error {
  override readonly name = 'NpzError';
}

export interface NpyArray {
  readonly shape: readonly number[];
  readonly data: Float32Array;
}

/** Signatures and sizes of a ZIP file (PKWARE's APPNOTE 6.3). */
const END = 0x06054b50;
const ENTRY = 0x02014b50;
const LOCAL = 0x04034b50;
const END_SIZE = 22;
const ENTRY_SIZE = 46;
const LOCAL_SIZE = 30;
const STORED = 0;
const DEFLATED = 8;

/**
 * Reads the arrays of NumPy's `savez`: a ZIP file of .npy files (numpy.lib.format). Arrays must be float32,
 * little-endian, in C order.
 * @param most largest size of one array, in bytes
 * @returns arrays by name
 * @throws NpzError
 */
export function readNpz(file: Buffer, most: number): ReadonlyMap<string, NpyArray> {
  try {
    return new Map(
      entriesOf(file).map(({ name, method, start, packed, size }) => {
        if (size > most) throw new NpzError(`${name}: is larger than ${most} bytes`);
        const bytes = file.subarray(start, start + packed);
        if (method !== STORED && method !== DEFLATED)
          throw new NpzError(`${name}: is packed by method ${method}`);
        const content = method === STORED ? bytes : inflateRawSync(bytes, { maxOutputLength: size });
        if (content.length !== size) throw new NpzError(`${name}: has ${content.length} bytes, not ${size}`);
        return [name.replace(/\.npy$/, ''), readNpy(name, content)];
      }),
    );
  } catch (error) {
    if (error instanceof NpzError) throw error;
    // A number outside the file, or packed bytes that are damaged.
    throw new NpzError(`is damaged: ${(error as Error).message}`);
  }
}

interface Entry {
  readonly name: string;
  readonly method: number;
  readonly start: number;
  readonly packed: number;
  readonly size: number;
}

function entriesOf(file: Buffer): Entry[] {
  let end = file.length - END_SIZE;
  while (end >= 0 && file.readUInt32LE(end) !== END) end--;
  if (end < 0) throw new NpzError('is no .npz file');
  const entries: Entry[] = [];
  let at = file.readUInt32LE(end + 16);
  for (let count = file.readUInt16LE(end + 10); count > 0; count--) {
    if (file.readUInt32LE(at) !== ENTRY) throw new NpzError('is damaged: an entry is missing');
    const nameLength = file.readUInt16LE(at + 28);
    const local = file.readUInt32LE(at + 42);
    if (file.readUInt32LE(local) !== LOCAL) throw new NpzError('is damaged: a file is missing');
    entries.push({
      name: file.toString('utf8', at + ENTRY_SIZE, at + ENTRY_SIZE + nameLength),
      method: file.readUInt16LE(at + 10),
      packed: file.readUInt32LE(at + 20),
      size: file.readUInt32LE(at + 24),
      // The local header has lengths of its own.
      start: local + LOCAL_SIZE + file.readUInt16LE(local + 26) + file.readUInt16LE(local + 28),
    });
    at += ENTRY_SIZE + nameLength + file.readUInt16LE(at + 30) + file.readUInt16LE(at + 32);
  }
  return entries;
}

function readNpy(name: string, bytes: Buffer): NpyArray {
  if (bytes.toString('latin1', 0, 6) !== '\x93NUMPY') throw new NpzError(`${name}: is no .npy file`);
  const long = bytes[6] !== 1;
  const start = long ? 12 : 10;
  const end = start + (long ? bytes.readUInt32LE(8) : bytes.readUInt16LE(8));
  const header = bytes.toString('latin1', start, end);
  const type = /'descr': *'([^']*)'/.exec(header)?.[1];
  const sizes = /'shape': *\(([\d, ]*)\)/.exec(header)?.[1];
  if (type !== '<f4' || !/'fortran_order': *False/.test(header) || sizes === undefined)
    throw new NpzError(`${name}: expected float32 in C order ('<f4'), found ${type ?? 'another header'}`);
  const shape = sizes.split(',').flatMap((size) => (size.trim() ? [Number(size)] : []));
  const count = shape.reduce((product, size) => product * size, 1);
  if (bytes.length - end !== 4 * count)
    throw new NpzError(`${name}: has ${bytes.length - end} bytes for [${shape.join(', ')}]`);
  return { shape, data: new Float32Array(new Uint8Array(bytes.subarray(end)).buffer) };
}
