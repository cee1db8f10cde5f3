import { normal, seeded } from '@semblance/testkit/sound/random';
import { describe, expect, it } from 'vitest';
import { MIXED_FRAMES, Retrieval } from './retrieval.ts';
import type { VoiceIndex } from './rvc-models.ts';

const WIDTH = 8;
const random = seeded(11);
const vector = (around: readonly number[] = new Array(WIDTH).fill(0), spread = 1) =>
  around.map((value) => Math.fround(value + spread * normal(random)));

function indexOf(
  id: string,
  centroids: readonly number[][],
  lists: readonly number[][][],
  probes: number,
): VoiceIndex {
  const shared = (values: readonly number[]) => {
    const there = new Float32Array(new SharedArrayBuffer(4 * values.length));
    there.set(values);
    return there;
  };
  const starts = new Uint32Array(new SharedArrayBuffer(4 * (lists.length + 1)));
  for (const [i, list] of lists.entries()) starts[i + 1] = (starts[i] as number) + list.length;
  const [means, vectors] = [shared(centroids.flat()), shared(lists.flat(2))];
  return { id, width: WIDTH, probes, centroids: means, starts, vectors };
}

const squared = (a: readonly number[], b: readonly number[]) =>
  a.reduce((sum, value, i) => sum + (value - (b[i] as number)) ** 2, 0);
const sortedBy = (near: readonly number[], all: readonly number[][]) =>
  [...all.keys()].sort((a, b) => squared(near, all[a] as number[]) - squared(near, all[b] as number[]));

/** RVC's `infer/vc/pipeline.py`: `index.search(npy, k=8)` and what it does with its result, for one frame. */
function published(
  feature: readonly number[],
  centroids: number[][],
  lists: number[][][],
  probes: number,
  rate: number,
) {
  const there = sortedBy(feature, centroids)
    .slice(0, probes)
    .flatMap((list) => lists[list] as number[][]);
  const nearest = sortedBy(feature, there)
    .slice(0, 8)
    .map((place) => there[place] as number[]);
  const weights = nearest.map((each) => (1 / squared(feature, each)) ** 2);
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return feature.map((value, i) => {
    const found = nearest.reduce(
      (total, each, k) => total + ((weights[k] as number) / sum) * (each[i] as number),
      0,
    );
    return rate * found + (1 - rate) * value;
  });
}

describe('features by an index', () => {
  const centroids = Array.from({ length: 30 }, () => vector(undefined, 3));
  // The lists have 0 to 29 vectors, so some have fewer than are averaged.
  const lists = centroids.map((centroid, i) => Array.from({ length: i }, () => vector(centroid)));

  it.each([
    [1, 0.75],
    [3, 1],
    [30, 0.4],
  ])('are those of the published pipeline, with %i lists searched and a rate of %f', (probes, rate) => {
    const retrieval = new Retrieval(indexOf(`of ${probes}`, centroids, lists, probes), rate);
    for (let round = 0; round < 5; round++) {
      const frames = Array.from({ length: 12 }, () => vector(centroids[1 + Math.floor(29 * random())]));
      const given = Float32Array.from(frames.flat());
      const mixed = retrieval.mixed(given);
      expect([...given]).toEqual(frames.flat());
      const untouched = (12 - MIXED_FRAMES) * WIDTH;
      expect(mixed.subarray(0, untouched)).toEqual(given.subarray(0, untouched));
      for (const [i, frame] of frames.slice(-MIXED_FRAMES).entries()) {
        const empty = sortedBy(frame, centroids)
          .slice(0, probes)
          .every((list) => lists[list]?.length === 0);
        const wanted = empty ? frame : published(frame, centroids, lists, probes, rate);
        for (const [k, value] of wanted.entries())
          expect(mixed[untouched + i * WIDTH + k]).toBeCloseTo(value, 4);
      }
    }
  });

  it('are those of the training where they are the same, and their own where a list is empty', () => {
    const [here, far] = [centroids[29] as number[], centroids[0] as number[]];
    const same = lists[29]?.[5] as number[];
    const index = indexOf('same', [here, far], [lists[29] as number[][], []], 1);
    const given = Float32Array.from([...new Array(MIXED_FRAMES - 1).fill(same), far].flat());
    const mixed = new Retrieval(index, 1).mixed(given);
    expect([...mixed]).toEqual([...given]);
  });

  it('are found by memory that streams of the same index share', () => {
    const index = indexOf('twice', centroids, lists, 1);
    const given = Float32Array.from(Array.from({ length: MIXED_FRAMES }, () => vector()).flat());
    const [one, other] = [new Retrieval(index, 0.5), new Retrieval({ ...index }, 0.5)];
    const first = one.mixed(given);
    other.mixed(given.map((value) => -value));
    expect(one.mixed(given)).toEqual(first);
  });
});
