import { expect, it } from 'vitest';
import { importGraph } from './import-graph.ts';

/**
 * Returns the groups of files that reach each other. Source: R. Tarjan, Depth-first search and linear graph
 * algorithms (1972).
 */
function circles(graph: ReadonlyMap<string, readonly string[]>): string[][] {
  const found: string[][] = [];
  const stack: string[] = [];
  const seen = new Map<string, { readonly index: number; low: number; onStack: boolean }>();
  const visit = (file: string) => {
    const state = { index: seen.size, low: seen.size, onStack: true };
    seen.set(file, state);
    stack.push(file);
    for (const next of graph.get(file) ?? []) {
      const other = seen.get(next);
      if (!other) state.low = Math.min(state.low, visit(next).low);
      else if (other.onStack) state.low = Math.min(state.low, other.index);
    }
    if (state.low === state.index) {
      const group = stack.splice(stack.indexOf(file));
      for (const member of group) (seen.get(member) as { onStack: boolean }).onStack = false;
      if (group.length > 1) found.push(group.sort());
    }
    return state;
  };
  for (const file of graph.keys()) if (!seen.has(file)) visit(file);
  return found;
}

it('finds a circle', () => {
  const graph = new Map([
    ['a', ['b']],
    ['b', ['c', 'd']],
    ['c', ['a']],
    ['d', []],
  ]);
  expect(circles(graph)).toEqual([['a', 'b', 'c']]);
});

it('no file imports itself by way of others, not even for a type', () => {
  const graph = importGraph({ types: true });
  expect([...graph.values()].flat().length).toBeGreaterThan(3_000);
  expect(circles(graph)).toEqual([]);
});
