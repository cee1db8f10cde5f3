import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { importGraph, reachedFrom } from './structure/import-graph.ts';
import { ROOT } from './structure/workspaces.ts';

/**
 * The suites; every test file is in one of them:
 * - unit: reaches no server, network or program, so nothing has to be prepared
 * - main: the contract against one stack, and each capability from end to end
 * - nightly: tests the protection against a machine that stands still for seconds, and what needs torch
 * - rest: everything else
 */
export const SUITES = ['unit', 'main', 'rest', 'nightly'] as const;
export type Suite = (typeof SUITES)[number];

/** Files and packages that a test file outside `unit` reaches. */
const PREPARED: readonly RegExp[] = [
  // Servers and the whole stack.
  /^packages\/testkit\/servers\//,
  /^packages\/testkit\/stack\/stack-process\.ts$/,
  /^local\/(kube|nats|postgres)\.ts$/,
  /^local\/toolchain\/toolchain\.ts$/,
  // Networks, a browser, containers.
  /^onnxruntime-node$/,
  /^playwright-core$/,
  /testcontainers/,
];
/** Matches the line or option in which a test names a program that it needs (packages/testkit/stack/programs.ts). */
const NEEDS = /@module-tag\s|\btags: \[/;

const MAIN = [/^test\/conformance\//, /^test\/e2e\/(demo|videos|live-swap|kubectl|admin)\.test\.ts$/];

const NIGHTLY = /^test\/nightly\//;

/** Returns the files of each suite, relative to the root. */
export function suiteFiles(): Record<Suite, string[]> {
  const graph = importGraph({ types: false });
  const files: Record<Suite, string[]> = { unit: [], main: [], rest: [], nightly: [] };
  for (const file of graph.keys()) {
    if (!/\.test\.ts$/.test(file)) continue;
    const reached = [...reachedFrom(file, graph)];
    const suite = NIGHTLY.test(file)
      ? 'nightly'
      : MAIN.some((pattern) => pattern.test(file))
        ? 'main'
        : needsNothing(file, reached)
          ? 'unit'
          : 'rest';
    files[suite].push(file);
  }
  return files;
}

function needsNothing(file: string, reached: readonly string[]): boolean {
  if (NEEDS.test(readFileSync(join(ROOT, file), 'utf8'))) return false;
  return !reached.some((path) => PREPARED.some((pattern) => pattern.test(path)));
}
