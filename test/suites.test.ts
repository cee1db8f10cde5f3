import { globSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { LONGEST } from './longest-first.ts';
import { ROOT } from './structure/workspaces.ts';
import { suiteFiles } from './suites.ts';

const files = suiteFiles();

describe('the suites', () => {
  it('have each test file once', () => {
    const exclude = (name: string) => /node_modules|\.semblance|\/gen$/.test(name);
    const all = globSync('**/*.test.ts', { cwd: ROOT, exclude });
    expect(Object.values(files).flat().sort()).toEqual(all.sort());
    for (const suite of Object.values(files)) expect(suite).not.toEqual([]);
  });

  it('run what guards the specification, money and isolation on every push', () => {
    const guards =
      /^test\/conformance|^control-plane\/(billing|accounts)|media\/sandbox|^test\/structure|tls/;
    expect(files.nightly.filter((file) => guards.test(file))).toEqual([]);
  });

  it('have each of the longest files', () => {
    expect(Object.values(files).flat()).toEqual(expect.arrayContaining([...LONGEST]));
  });

  it('run each capability from end to end in `npm test`', () => {
    const tests = ['demo', 'videos', 'live-swap', 'kubectl', 'admin'].map(
      (name) => `test/e2e/${name}.test.ts`,
    );
    expect(files.main).toEqual(expect.arrayContaining(tests));
  });
});
