import type { FloatTensor, FloatTensors } from './protocol.ts';

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
 * @throws Error when the number of outputs differs from the number of inputs
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
