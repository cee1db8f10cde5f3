import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { ENGINE_FLAGS } from './engine-process.ts';

const run = promisify(execFile);

/**
 * Allocates lists of 70 kB, of which the last hundred are alive. Each lives long enough to reach the old
 * generation. All together, 140 MB, fit into its initial size.
 */
const RENDERS = `
  const kept = [];
  for (let i = 0; i < 2_000; i++) kept[i % 100] = Array.from({ length: 2_000 }, (_, j) => ({ i, j }));
`;
const IN_A_THREAD = `new (require('node:worker_threads').Worker)(${JSON.stringify(RENDERS)}, { eval: true });`;

/** Counts the full garbage collections in V8's own trace. */
async function fullCollections(script: string, flags: readonly string[]): Promise<number> {
  const { stdout } = await run(process.execPath, [...flags, '--trace-gc', '-e', script]);
  expect(stdout).toContain('Scavenge');
  return stdout.split('\n').filter((line) => line.includes('Mark-Compact')).length;
}

test.each([
  ['', RENDERS],
  [', in its threads too,', IN_A_THREAD],
])(
  'a process that renders%s does not collect all of its heap for what renders leave',
  async (_where, script) => {
    expect(await fullCollections(script, [])).toBeGreaterThan(0);
    expect(await fullCollections(script, ENGINE_FLAGS)).toBe(0);
  },
);
