import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export const ROOT = join(import.meta.dirname, '..', '..');

export interface Workspace {
  /** Name in imports, such as `@semblance/vision`. */
  readonly name: string;
  /** Folder, relative to the root. */
  readonly folder: string;
  readonly dependencies: readonly string[];
  readonly exports: Readonly<Record<string, string>>;
}

/** One import of one file. */
export interface Import {
  /** File that imports, relative to the root. */
  readonly file: string;
  /** Specifier: a relative path, or a package with its export. */
  readonly specifier: string;
}

const FROM =
  /(?:\bfrom\s+|\bimport\s*\(\s*|^import\s+|\bimport\.meta\.resolve\(\s*|\brequire\.resolve\(\s*)['"]([^'"\n]+)['"]/gm;
/** Matches the package of a call whose files are read and not imported (tools/convert-models/catalog.ts). */
const INSTALLED = /\binstalled\('([^']+)'/g;

/** Returns the files that git tracks or would track, relative to the root. */
export function trackedFiles(): string[] {
  const args = ['ls-files', '--cached', '--others', '--exclude-standard', '--deduplicate'];
  return execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 1 << 26 })
    .split('\n')
    .filter((path) => path !== '');
}

/** Workspaces whose packages are bundled when they are built, and installed by nobody who runs them. */
const BUNDLED: ReadonlySet<string> = new Set(['@semblance/console']);

/** Returns all workspaces, from their manifests. */
export function workspaces(): Workspace[] {
  return trackedFiles()
    .filter((path) => /^((packages|tools)\/)?[a-z-]+\/package\.json$/.test(path))
    .map((path) => {
      const manifest = JSON.parse(readFileSync(join(ROOT, path), 'utf8'));
      return {
        name: manifest.name,
        folder: path.slice(0, -'/package.json'.length),
        dependencies: Object.keys(
          (BUNDLED.has(manifest.name) ? manifest.devDependencies : manifest.dependencies) ?? {},
        ),
        exports: manifest.exports ?? {},
      };
    });
}

/** Returns the workspace of a file; undefined for a file of the root: suites, charts, images, tools, examples. */
export function workspaceOf(file: string, all: readonly Workspace[]): Workspace | undefined {
  return all.find(({ folder }) => file.startsWith(`${folder}/`));
}

/** Returns the imports of a file, types included. */
export function importsOf(file: string): Import[] {
  const text = readFileSync(join(ROOT, file), 'utf8');
  return [FROM, INSTALLED].flatMap((pattern) =>
    Array.from(text.matchAll(pattern), ([, specifier = '']) => ({ file, specifier })),
  );
}

/** Returns the package that a specifier names; undefined for a relative path, a module of Node.js or a URL. */
export function packageOf(specifier: string): string | undefined {
  if (/^(?:[./$#]|node:|file:)/.test(specifier)) return undefined;
  return specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/');
}

/** Returns these workspaces and all on which they depend, by their manifests. */
export function closure(names: readonly string[], all: readonly Workspace[]): Workspace[] {
  const found = new Set<Workspace>();
  const visit = (name: string) => {
    const workspace = all.find((candidate) => candidate.name === name);
    if (!workspace || found.has(workspace)) return;
    found.add(workspace);
    workspace.dependencies.forEach(visit);
  };
  names.forEach(visit);
  return [...found];
}
