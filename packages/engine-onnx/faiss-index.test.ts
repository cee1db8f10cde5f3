import { mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type IvfFlatContent, ivfFlatFile } from '@semblance/testkit/engine-onnx/faiss-file';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkIvfFlat, readIvfFlat } from './faiss-index.ts';

let directory = '';
let files = 0;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'semblance-faiss-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

async function write(bytes: Uint8Array): Promise<string> {
  const path = join(directory, `${files++}.index`);
  await writeFile(path, bytes);
  return path;
}

const content: IvfFlatContent = {
  width: 2,
  probes: 2,
  centroids: [
    [0, 0],
    [10, 0],
    [20, 5],
  ],
  lists: [
    [
      [0, 1],
      [1, 0.25],
    ],
    [],
    [[19, 4]],
  ],
};

describe('an index of faiss', () => {
  it.each(
    ([0, 1, 2] as const).flatMap((map) => (['full', 'sprs'] as const).map((form) => [map, form] as const)),
  )('is read with a direct map of type %i and lists in the form %s', async (map, form) => {
    const path = await write(ivfFlatFile({ ...content, map, form }));
    expect(await checkIvfFlat(path)).toEqual({ width: 2, count: 3 });
    const { width, probes, centroids, starts, vectors } = await readIvfFlat(path);
    expect([width, probes]).toEqual([2, 2]);
    expect([...centroids]).toEqual([0, 0, 10, 0, 20, 5]);
    expect([...starts]).toEqual([0, 2, 2, 3]);
    expect([...vectors]).toEqual([0, 1, 1, 0.25, 19, 4]);
    // Threads share it.
    expect([centroids, starts, vectors].every(({ buffer }) => buffer instanceof SharedArrayBuffer)).toBe(
      true,
    );
  });

  it('searches at most the lists that it has', async () => {
    const path = await write(ivfFlatFile({ ...content, probes: 64 }));
    expect((await readIvfFlat(path)).probes).toBe(3);
  });

  it.each<[string, Partial<IvfFlatContent>, string]>([
    ['another kind', { kind: 'IwPQ' }, 'is a faiss IndexIVFPQ (IwPQ); a voice needs a faiss IndexIVFFlat'],
    ['no index', { kind: 'PK\u0003\u0004' }, 'is no known faiss index; a voice needs'],
    ['another quantizer', { quantizer: 'IHNf' }, 'that is a faiss IndexHNSWFlat (IHNf), not IndexFlatL2'],
    ['another metric', { metric: 0 }, 'compares by the metric 0, not by L2'],
    ['no training', { trained: false }, 'says that it is not trained'],
    ['no vectors', { lists: [[], [], []] }, 'use the file that RVC names added_….index'],
    ['a wrong number', { count: 4 }, 'has 3 vectors in its lists, not 4'],
    ['a missing centroid', { centroids: [[0, 0]] }, 'has 1 centroids of 2 for 3 lists of 2'],
    ['vectors of no width', { width: 0, centroids: [], lists: [] }, 'has vectors of 0'],
    ['no lists', { centroids: [], lists: [] }, 'has no lists'],
    ['values that are none', { lists: [[[Number.NaN, 0]], [], []] }, 'not finite numbers'],
  ])('is refused with %s', async (_what, change, message) => {
    const path = await write(ivfFlatFile({ ...content, ...change }));
    await expect(readIvfFlat(path)).rejects.toThrow(message);
  });

  it('is refused when it is cut off anywhere, or goes on after its end', async () => {
    const bytes = ivfFlatFile(content);
    for (let length = 0; length < bytes.length; length++) {
      const path = await write(bytes.subarray(0, length));
      await expect(checkIvfFlat(path), `${length} bytes`).rejects.toThrow('is cut off');
    }
    const longer = await write(Buffer.concat([bytes, Buffer.alloc(3)]));
    await expect(checkIvfFlat(longer)).rejects.toThrow('has 3 bytes after its end');
  });

  it('is refused when it is too large, or says that it has more than a file can hold', async () => {
    const path = await write(ivfFlatFile(content));
    await truncate(path, 768 * 1024 * 1024 + 1);
    await expect(checkIvfFlat(path)).rejects.toThrow('768 MiB are the most');
    const lying = ivfFlatFile(content);
    lying.writeBigUInt64LE(2n ** 63n, 4 + 33);
    const other = await write(lying);
    await expect(checkIvfFlat(other)).rejects.toThrow(
      'has a number of lists of 9223372036854775808, which is too many',
    );
  });
});
