import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { importsOf, packageOf, ROOT, trackedFiles, type Workspace, workspaces } from './workspaces.ts';

/** Imports of each file: files of the tree by their paths, everything else by its specifier. */
export type ImportGraph = ReadonlyMap<string, readonly string[]>;

/**
 * Returns the imports of all TypeScript files of the tree.
 * @param options.types whether `import type` counts, which Node.js never loads
 */
export function importGraph({ types }: { readonly types: boolean }): ImportGraph {
  const all = workspaces();
  const files = new Set(trackedFiles().filter((file) => /\.ts$/.test(file) && existsSync(join(ROOT, file))));
  const target = (file: string, specifier: string): string => {
    const path = specifier.startsWith('.')
      ? normalize(join(dirname(file), specifier))
      : exported(specifier, all);
    return path !== undefined && files.has(path) ? path : specifier;
  };
  const read = (file: string) => (types ? importsOf(file).map(({ specifier }) => specifier) : loadedBy(file));
  return new Map([...files].map((file) => [file, read(file).map((specifier) => target(file, specifier))]));
}

/** Returns all that a file imports, directly or indirectly. */
export function reachedFrom(file: string, graph: ImportGraph): Set<string> {
  const reached = new Set<string>();
  const visit = (node: string) => {
    for (const next of graph.get(node) ?? []) {
      if (reached.has(next)) continue;
      reached.add(next);
      visit(next);
    }
  };
  visit(file);
  return reached;
}

const LOADED =
  /(?:^(?:import|export)\s+(?!type\b)(?:[^'";]*?\sfrom\s+)?|\bimport\s*\(\s*|new URL\(\s*)['"]([^'"\n]+)['"]/gm;

/**
 * Returns the specifiers that Node.js loads when it runs the file: those of `import`, `import()`, and files of
 * threads and processes.
 */
function loadedBy(file: string): string[] {
  const text = readFileSync(join(ROOT, file), 'utf8');
  return Array.from(text.matchAll(LOADED), ([, specifier = '']) => specifier);
}

function exported(specifier: string, all: readonly Workspace[]): string | undefined {
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
