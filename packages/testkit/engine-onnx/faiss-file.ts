/** What a file of faiss says of an IndexIVFFlat; all but the vectors have defaults. */
export interface IvfFlatContent {
  readonly width: number;
  readonly probes?: number;
  readonly centroids: readonly (readonly number[])[];
  /** Vectors of each list. */
  readonly lists: readonly (readonly (readonly number[])[])[];
  readonly kind?: string;
  readonly quantizer?: string;
  readonly metric?: number;
  readonly trained?: boolean;
  /** Number of vectors that the header states. */
  readonly count?: number;
  /** Direct map: none, an array, or pairs. */
  readonly map?: 0 | 1 | 2;
  /** Form of the lists; default: as faiss chooses it, sparse if at least half of them are empty. */
  readonly form?: 'full' | 'sprs';
}

/** Writes an IndexIVFFlat as `faiss.write_index` does (faiss/impl/index_write.cpp). */
export function ivfFlatFile(content: IvfFlatContent): Buffer<ArrayBuffer> {
  const { width, centroids, lists, kind = 'IwFl', quantizer = 'IxF2', metric = 1, trained = true } = content;
  const vectors = lists.flat();
  const count = content.count ?? vectors.length;
  const map = content.map ?? 0;
  const full = lists.filter(({ length }) => length > 0).length > lists.length / 2;
  const form = content.form ?? (full ? 'full' : 'sprs');
  const sizes = lists.flatMap(({ length }, i) =>
    form === 'full' ? [length] : length > 0 ? [i, length] : [],
  );
  let id = 0;
  return Buffer.concat([
    ...[letters(kind), header(width, count, metric, trained), words(lists.length, content.probes ?? 1)],
    ...[letters(quantizer), header(width, centroids.length, metric, true)],
    ...[words(centroids.length * width), floats(centroids.flat())],
    ...[Buffer.of(map), words(...(map === 1 ? [vectors.length, ...vectors.keys()] : [0]))],
    ...(map === 2 ? [words(vectors.length, ...[...vectors.keys()].flatMap((key) => [key, key]))] : []),
    ...[letters('ilar'), words(lists.length, 4 * width), letters(form), words(sizes.length, ...sizes)],
    ...lists.flatMap((list) => [floats(list.flat()), words(...list.map(() => id++))]),
  ]);
}

function header(width: number, count: number, metric: number, trained: boolean): Buffer {
  const head = Buffer.alloc(33);
  head.writeInt32LE(width, 0);
  for (const [i, value] of [count, 1 << 20, 1 << 20].entries())
    head.writeBigInt64LE(BigInt(value), 4 + 8 * i);
  head.writeUInt8(trained ? 1 : 0, 28);
  head.writeInt32LE(metric, 29);
  return head;
}

function letters(four: string): Buffer {
  return Buffer.from(four, 'latin1');
}

function words(...values: readonly number[]): Buffer {
  return Buffer.from(BigUint64Array.from(values, BigInt).buffer);
}

function floats(values: readonly number[]): Buffer {
  return Buffer.from(Float32Array.from(values).buffer);
}
