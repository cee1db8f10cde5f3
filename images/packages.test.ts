import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { GATEWAY_FLAGS } from '@semblance/gateway/node-flags';
import { AGENT_FLAGS } from '@semblance/gpu-agent/node-flags';
import { expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '..');
const IMPORT = /^\s*(?:import|export)\s+(?!type\b)(?:[^'";]*?\sfrom\s+)?['"]([^'"]+)['"]/gm;
const OTHER = /\b(?:import|require|resolve)\(\s*['"]([^'"]+)['"]/g;
const PATHS: Readonly<Record<string, string>> = {
  '#common/': 'common/',
  '#proto/': 'proto/gen/',
  '#crds/': 'crds/',
};
const dependencies = Object.keys(
  (JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { dependencies: object }).dependencies,
);

/** Sources as images have them: neither tests nor what belongs to them (.dockerignore). */
function sources(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory()) return /^(testing|training)$/.test(entry.name) ? [] : sources(path);
    return /\.ts$/.test(path) && !/\.test\.ts$/.test(path) ? [path] : [];
  });
}

/** Packages that files of these folders import, and that what they import of other folders does. */
function imported(folders: readonly string[]): Set<string> {
  const todo = folders.flatMap(sources);
  const seen = new Set<string>();
  const packages = new Set<string>();
  for (let file = todo.pop(); file !== undefined; file = todo.pop()) {
    if (seen.has(file) || !existsSync(join(ROOT, file))) continue;
    seen.add(file);
    const text = readFileSync(join(ROOT, file), 'utf8');
    // Two packages are not imported but looked up in node_modules, for the networks in them.
    for (const [, name = ''] of text.matchAll(/\binstalled\('([^']+)'/g)) packages.add(name);
    for (const pattern of [IMPORT, OTHER])
      for (const [, name = ''] of text.matchAll(pattern)) {
        const alias = Object.keys(PATHS).find((prefix) => name.startsWith(prefix));
        if (alias) todo.push(PATHS[alias] + name.slice(alias.length));
        else if (name.startsWith('.')) todo.push(normalize(join(dirname(file), name)));
        else packages.add(name.split('/', name.startsWith('@') ? 2 : 1).join('/'));
      }
  }
  return packages;
}

const containerfile = readFileSync(join(import.meta.dirname, 'Containerfile'), 'utf8');
/** What a stage and the one it stands on take out. */
const removed = (...stages: readonly string[]) =>
  stages.flatMap((stage) => {
    const [, text = ''] = new RegExp(` AS ${stage}\\n([^]*?)(?=\\nFROM )`).exec(containerfile) ?? [];
    return [...text.matchAll(/dependencies\.(\S+)/g)].map(([, name]) => name);
  });

it.each([
  { stage: 'service-packages', folders: ['gateway', 'control-plane', 'operator'] },
  { stage: 'agent-packages', folders: ['gpu-agent'] },
])('$stage has the dependencies that its image imports, and no others', ({ stage, folders }) => {
  const wanted = imported(folders);
  expect(wanted).toContain('pino');
  const unused = dependencies.filter((name) => !wanted.has(name)).sort();
  expect(removed('production-packages', stage).sort()).toEqual(unused);
});

it.each([
  ['gateway', GATEWAY_FLAGS],
  ['gpu-agent', AGENT_FLAGS],
])('%s runs with its flags', (service, flags) => {
  const commands = [...containerfile.matchAll(/^CMD (\["node"[^\]]*\])$/gm)].map(
    ([, json = '']) => JSON.parse(json.replace(/\\\n/g, '')) as string[],
  );
  const main = `${service}/main.ts`;
  expect(commands.filter((command) => command.includes(main))).toEqual([['node', ...flags, main]]);
});
