import { closeSync, fstatSync, openSync, read, readSync } from 'node:fs';
import { promisify } from 'node:util';

const readAsync = promisify(read);

/** Largest file, in bytes. RVC's training writes at most 200,000 vectors of 768 numbers, which need 640 MB. */
const MAX_BYTES = 768 * 1024 * 1024;
/** Longest vector of a plausible file. */
const MAX_WIDTH = 4_096;
const MAX_LISTS = 1_000_000;
const L2 = 1;
/** Kinds that people may have instead, by the four letters at their beginning (faiss/impl/index_write.cpp). */
const KINDS: Readonly<Record<string, string>> = {
  IxF2: 'IndexFlatL2',
  IxFI: 'IndexFlatIP',
  IxPq: 'IndexPQ',
  IxSQ: 'IndexScalarQuantizer',
  IxPT: 'IndexPreTransform',
  IxMp: 'IndexIDMap',
  IxM2: 'IndexIDMap2',
  IHNf: 'IndexHNSWFlat',
  IwPQ: 'IndexIVFPQ',
  IwSq: 'IndexIVFScalarQuantizer',
  IwFd: 'IndexIVFFlatDedup',
  IvFl: 'IndexIVFFlat of an old faiss',
  IvFL: 'IndexIVFFlat of an old faiss',
};

/** A file is no index that a voice can use; the message says why and follows the words "the index". */
export class FaissIndexError extends Error {
  override readonly name = 'FaissIndexError';
}

/** Vectors in lists, each list with the centroid to which its vectors are nearest. All memory is shared by threads. */
export interface IvfFlat {
  /** Numbers of a vector. */
  readonly width: number;
  /** Number of lists that a search looks through. */
  readonly probes: number;
  /** One vector after the other, a centroid for each list. */
  readonly centroids: Float32Array<SharedArrayBuffer>;
  /** Vectors before each list, and the number of all at the end. */
  readonly starts: Uint32Array<SharedArrayBuffer>;
  /** One vector after the other, list by list. */
  readonly vectors: Float32Array<SharedArrayBuffer>;
}

/** Places of the values in a file, in bytes. */
interface Layout {
  readonly width: number;
  readonly probes: number;
  readonly centroids: number;
  /** Number of vectors of each list. */
  readonly sizes: readonly number[];
  /** Place of the first list's vectors. */
  readonly lists: number;
}

/**
 * Checks a faiss IndexIVFFlat without reading its vectors.
 * @returns the numbers of its vectors
 * @throws FaissIndexError
 */
export async function checkIvfFlat(
  path: string,
): Promise<{ readonly width: number; readonly count: number }> {
  const { width, sizes } = await withFile(path, async (file) => readLayout(file));
  return { width, count: sizes.reduce((sum, size) => sum + size, 0) };
}

/**
 * Reads a faiss IndexIVFFlat with the metric L2, as `faiss.write_index` writes it on a little-endian machine
 * (`IwFl`; faiss/impl/index_write.cpp). The ids of the vectors are not kept.
 * @throws FaissIndexError
 */
export function readIvfFlat(path: string): Promise<IvfFlat> {
  return withFile(path, async (file) => {
    const { width, probes, centroids, sizes, lists } = readLayout(file);
    const count = sizes.reduce((sum, size) => sum + size, 0);
    const starts = new Uint32Array(new SharedArrayBuffer(4 * (sizes.length + 1)));
    const vectors = shared(count * width);
    file.at = lists;
    for (const [list, size] of sizes.entries()) {
      const start = starts[list] as number;
      starts[list + 1] = start + size;
      await file.floats(vectors.subarray(start * width, (start + size) * width));
      file.at += 8 * size;
    }
    const means = shared(sizes.length * width);
    file.at = centroids;
    await file.floats(means);
    return { width, probes, centroids: means, starts, vectors };
  });
}

function readLayout(file: IndexFile): Layout {
  const kind = file.letters();
  if (kind !== 'IwFl') throw new FaissIndexError(`${describeKind(kind)}; a voice needs a faiss IndexIVFFlat`);
  const { width, count } = readHeader(file, 'it');
  const lists = file.count('number of lists', MAX_LISTS);
  const probes = file.count('number of lists to search', Number.MAX_SAFE_INTEGER);
  if (lists === 0 || probes === 0) throw new FaissIndexError('has no lists, or searches none');
  const quantizer = file.letters();
  if (quantizer !== 'IxF2')
    throw new FaissIndexError(
      `finds its lists by another index: that ${describeKind(quantizer)}, not IndexFlatL2`,
    );
  const coarse = readHeader(file, 'its quantizer');
  const numbers = file.count('number of values of the centroids', lists * width);
  if (coarse.width !== width || coarse.count !== lists || numbers !== lists * width)
    throw new FaissIndexError(
      `has ${coarse.count} centroids of ${coarse.width} for ${lists} lists of ${width}`,
    );
  const centroids = file.at;
  file.skip(4 * numbers);
  skipDirectMap(file);
  const sizes = readSizes(file, lists, width);
  const found = sizes.reduce((sum, size) => sum + size, 0);
  if (found !== count) throw new FaissIndexError(`has ${found} vectors in its lists, not ${count}`);
  if (found === 0)
    throw new FaissIndexError(
      'has no vectors; use the file that RVC names added_….index, not trained_….index',
    );
  const places = { width, probes: Math.min(probes, lists), centroids, sizes, lists: file.at };
  file.skip(found * (4 * width + 8));
  if (file.at !== file.size) throw new FaissIndexError(`has ${file.size - file.at} bytes after its end`);
  return places;
}

/** Reads the header that all kinds of index have. */
function readHeader(file: IndexFile, what: string): { width: number; count: number } {
  const width = file.int32();
  if (width < 1 || width > MAX_WIDTH) throw new FaissIndexError(`says that ${what} has vectors of ${width}`);
  const count = file.count('number of vectors', Number.MAX_SAFE_INTEGER);
  // Two numbers of the header mean nothing any more.
  file.skip(16);
  if (file.byte() !== 1) throw new FaissIndexError(`says that ${what} is not trained`);
  const metric = file.int32();
  if (metric !== L2) throw new FaissIndexError(`compares by the metric ${metric}, not by L2 (1)`);
  return { width, count };
}

/** Skips what leads from an id to a vector: an array (type 1), or pairs (type 2). */
function skipDirectMap(file: IndexFile): void {
  const type = file.byte();
  if (type > 2) throw new FaissIndexError(`has a direct map of the unknown type ${type}`);
  file.skip(8 * file.count('length of the direct map', MAX_BYTES / 8));
  if (type === 2) file.skip(16 * file.count('length of the direct map', MAX_BYTES / 16));
}

function readSizes(file: IndexFile, lists: number, width: number): number[] {
  const kind = file.letters();
  if (kind !== 'ilar')
    throw new FaissIndexError(`keeps its lists in another form (${kind}), not in the file`);
  const found = file.count('number of lists', MAX_LISTS);
  const bytes = file.count('length of a vector', MAX_BYTES);
  if (found !== lists || bytes !== 4 * width)
    throw new FaissIndexError(`has ${found} lists of ${bytes} bytes a vector for ${lists} of ${4 * width}`);
  const form = file.letters();
  if (form !== 'full' && form !== 'sprs') throw new FaissIndexError(`has lists of an unknown form (${form})`);
  const length = file.count('number of sizes', 2 * lists);
  const sizes = new Array<number>(lists).fill(0);
  const most = Math.floor(file.size / bytes);
  if (form === 'full') {
    if (length !== lists) throw new FaissIndexError(`has ${length} sizes for ${lists} lists`);
    return sizes.map(() => file.count('size of a list', most));
  }
  // Sparse: pairs of a list and its size.
  for (let i = 0; i + 1 < length; i += 2) {
    const list = file.count('list', lists - 1);
    sizes[list] = file.count('size of a list', most);
  }
  if (length % 2 === 1) throw new FaissIndexError('has half a pair of list and size');
  return sizes;
}

/** Reads values one after the other. */
class IndexFile {
  readonly size: number;
  /** Place of the next value. */
  at = 0;
  readonly #fd: number;
  readonly #word = new DataView(new ArrayBuffer(8));

  constructor(fd: number, size: number) {
    this.#fd = fd;
    this.size = size;
  }

  letters(): string {
    const word = this.#read(4);
    return String.fromCharCode(...Array.from({ length: 4 }, (_, i) => word.getUint8(i)));
  }

  byte(): number {
    return this.#read(1).getUint8(0);
  }

  int32(): number {
    return this.#read(4).getInt32(0, true);
  }

  count(what: string, most: number): number {
    const value = this.#read(8).getBigUint64(0, true);
    if (value > BigInt(most)) throw new FaissIndexError(`has a ${what} of ${value}, which is too many`);
    return Number(value);
  }

  /** Other work goes on meanwhile, because there may be hundreds of MiB. */
  async floats(into: Float32Array): Promise<void> {
    const bytes = new Uint8Array(into.buffer, into.byteOffset, into.byteLength);
    for (let done = 0; done < bytes.length; ) {
      const { bytesRead } = await readAsync(this.#fd, bytes, done, bytes.length - done, this.at);
      if (bytesRead === 0) throw cutOff();
      done += bytesRead;
      this.at += bytesRead;
    }
    if (!allFinite(into)) throw new FaissIndexError('has values that are not finite numbers');
  }

  skip(bytes: number): void {
    if (this.at + bytes > this.size) throw cutOff();
    this.at += bytes;
  }

  #read(bytes: number): DataView {
    this.#fill(new Uint8Array(this.#word.buffer, 0, bytes));
    return this.#word;
  }

  #fill(into: Uint8Array): void {
    for (let done = 0; done < into.length; ) {
      const read = readSync(this.#fd, into, done, into.length - done, this.at);
      if (read === 0) throw cutOff();
      done += read;
      this.at += read;
    }
  }
}

async function withFile<T>(path: string, use: (file: IndexFile) => Promise<T>): Promise<T> {
  const fd = openSync(path, 'r');
  try {
    const { size } = fstatSync(fd);
    if (size > MAX_BYTES)
      throw new FaissIndexError(`has ${size} bytes; ${MAX_BYTES / 1024 / 1024} MiB are the most`);
    return await use(new IndexFile(fd, size));
  } finally {
    closeSync(fd);
  }
}

function describeKind(letters: string): string {
  const name = KINDS[letters];
  return name ? `is a faiss ${name} (${letters})` : 'is no known faiss index';
}

function cutOff(): FaissIndexError {
  return new FaissIndexError('is cut off');
}

function shared(length: number): Float32Array<SharedArrayBuffer> {
  return new Float32Array(new SharedArrayBuffer(4 * length));
}

function allFinite(values: Float32Array): boolean {
  for (let i = 0; i < values.length; i++) if (!Number.isFinite(values[i])) return false;
  return true;
}
