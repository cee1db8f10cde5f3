import { existsSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { expect, it } from 'vitest';
import { importsOf, packageOf, ROOT, trackedFiles, type Workspace, workspaces } from './workspaces.ts';

const all = workspaces();
const files = new Set(trackedFiles().filter((file) => /\.ts$/.test(file) && existsSync(join(ROOT, file))));

/** Returns the file that an import names, types included; undefined if it is not in the tree. */
function resolved(file: string, specifier: string): string | undefined {
  const path = specifier.startsWith('.') ? normalize(join(dirname(file), specifier)) : exported(specifier);
  return path !== undefined && files.has(path) ? path : undefined;
}

function exported(specifier: string): string | undefined {
  const workspace = all.find(({ name }) => name === packageOf(specifier));
  return workspace && exportOf(workspace, `.${specifier.slice(workspace.name.length)}`);
}

function exportOf({ folder, exports }: Workspace, key: string): string | undefined {
  const exact = exports[key];
  if (exact !== undefined) return join(folder, exact);
  for (const [pattern, target] of Object.entries(exports)) {
    const [before = '', after] = pattern.split('*');
    if (after !== undefined && key.startsWith(before))
      return join(folder, target.replace('*', key.slice(before.length)));
  }
  return undefined;
}

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
  const graph = new Map(
    [...files].map((file) => [
      file,
      importsOf(file).flatMap(({ specifier }) => resolved(file, specifier) ?? []),
    ]),
  );
  expect([...graph.values()].flat().length).toBeGreaterThan(3_000);
  expect(circles(graph)).toEqual([]);
});
