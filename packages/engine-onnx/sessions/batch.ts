import type { FloatTensor, FloatTensors } from './protocol.ts';

/** How many items go in, of a model that takes several. */
export function itemsOf(feeds: FloatTensors): number {
  return Object.values(feeds)[0]?.dims[0] ?? 1;
}

/** Puts the items of several requests one behind the other. */
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
 * Takes what a joint run made apart again, for each request its own items.
 * @param sizes how many items each request had
 * @throws Error when not as many items came out as went in
 */
export function split(outputs: FloatTensors, sizes: readonly number[]): FloatTensors[] {
  const total = sizes.reduce((sum, size) => sum + size, 0);
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
