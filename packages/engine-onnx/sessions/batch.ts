import type { FloatTensor, FloatTensors } from './protocol.ts';

/**
 * Numbers of items of one run on a GPU. Any other number is a shape that the warm-up did not run: cuDNN would search
 * its algorithms anew in the middle of a render, and the arena would take more memory.
 */
export const FIXED_SIZES: readonly number[] = [1, 4, 8];
/** Largest number of items in one run. */
const MAX_ITEMS = 8;
/** Largest share of a run that may be padding, because a GPU computes it as it computes the rest. */
const MOST_PADDING = 1 / 4;

/** Returns the size of a run with so many items: the next fixed one, or their number where sizes are not fixed. */
export function paddedSize(items: number, sizes: readonly number[] | undefined): number {
  return sizes?.find((size) => size >= items) ?? items;
}

/**
 * Returns how many of the waiting items go into the next run: as many as fit without much padding.
 * @param sizes fixed sizes in ascending order, the first of them 1; undefined: any up to {@link MAX_ITEMS}
 */
export function itemsOfRun(waiting: number, sizes: readonly number[] | undefined): number {
  if (!sizes) return Math.min(waiting, MAX_ITEMS);
  for (let items = Math.min(waiting, sizes.at(-1) ?? 1); items > 1; items--) {
    const size = paddedSize(items, sizes);
    if (size - items <= size * MOST_PADDING) return items;
  }
  return 1;
}

/** Fills the inputs up to `size` items with copies of the last, which is a valid value for any model. */
export function pad(feeds: FloatTensors, size: number): FloatTensors {
  const items = itemsOf(feeds);
  if (items >= size) return feeds;
  return Object.fromEntries(
    Object.entries(feeds).map(([role, { data, dims }]): [string, FloatTensor] => {
      const each = data.length / items;
      const padded = new Float32Array(size * each);
      padded.set(data);
      for (let item = items; item < size; item++)
        padded.copyWithin(item * each, (items - 1) * each, items * each);
      return [role, { data: padded, dims: [size, ...dims.slice(1)] }];
    }),
  );
}

/** Returns the number of items in the inputs of a model that accepts several. */
export function itemsOf(feeds: FloatTensors): number {
  return Object.values(feeds)[0]?.dims[0] ?? 1;
}

export function join(all: readonly FloatTensors[]): FloatTensors {
  const [first] = all;
  return Object.fromEntries(
    Object.keys(first ?? {}).map((role): [string, FloatTensor] => {
      const parts = all.map((feeds) => feeds[role] as FloatTensor);
      const data = new Float32Array(parts.reduce((sum, part) => sum + part.data.length, 0));
      let at = 0;
      for (const part of parts) {
        data.set(part.data, at);
        at += part.data.length;
      }
      const items = parts.reduce((sum, part) => sum + (part.dims[0] ?? 1), 0);
      return [role, { data, dims: [items, ...(parts[0]?.dims.slice(1) ?? [])] }];
    }),
  );
}

/**
 * Splits the result of a combined run by request.
 * @param sizes number of items of each request
 * @param padding number of items after them that nobody asked for
 * @throws Error when the number of outputs differs from the number of inputs
 */
export function split(outputs: FloatTensors, sizes: readonly number[], padding = 0): FloatTensors[] {
  const total = sizes.reduce((sum, size) => sum + size, padding);
  for (const [role, { dims }] of Object.entries(outputs))
    if (dims[0] !== total) throw new Error(`${role} has the shape [${dims.join(', ')}] for ${total} items`);
  let from = 0;
  return sizes.map((size) => {
    const own = Object.entries(outputs).map(([role, { data, dims }]): [string, FloatTensor] => {
      const each = data.length / total;
      const part = data.slice(from * each, (from + size) * each);
      return [role, { data: part, dims: [size, ...dims.slice(1)] }];
    });
    from += size;
    return Object.fromEntries(own);
  });
}
