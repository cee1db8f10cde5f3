import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { foldersOf, watchSources } from './watch-sources.ts';

let unwatch: (() => void) | undefined;
afterEach(() => unwatch?.());

it('knows what a service stands on by the manifests', () => {
  expect(foldersOf('gateway')).toEqual(
    expect.arrayContaining(['gateway', 'common', 'packages/engine-api', 'proto']),
  );
  expect(foldersOf('gateway')).not.toContain('packages/vision');
  expect(foldersOf('gpu-agent')).toEqual(
    expect.arrayContaining(['gpu-agent', 'packages/vision', 'packages/engine-onnx']),
  );
});

it('tells the services that stand on a file that is saved, once', async () => {
  const told: string[] = [];
  unwatch = watchSources(['gateway', 'gpu-agent'], (service, file) => told.push(`${service} ${file}`));
  const file = join(import.meta.dirname, '..', '..', 'packages', 'vision', 'picture.ts');
  const text = readFileSync(file);
  writeFileSync(file, text);
  writeFileSync(file, text);
  await expect.poll(() => told).toEqual(['gpu-agent packages/vision/picture.ts']);
});
