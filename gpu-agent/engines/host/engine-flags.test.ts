import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { ENGINE_FLAGS } from './engine-process.ts';

const run = promisify(execFile);

/**
 * Forty rounds, each of which leaves what a render does: buffers of pictures, and lists that have lived long enough to
 * be moved to the old generation. Says how often all of the heap was collected, and the most resident memory in MiB.
 */
const RENDERS = `
  const { PerformanceObserver, constants } = require('node:perf_hooks');
  let collections = 0;
  new PerformanceObserver((list) => {
    for (const { detail } of list.getEntries())
      if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) collections++;
  }).observe({ entryTypes: ['gc'] });
  const round = () => {
    const lists = [];
    for (let i = 0; i < 60; i++) {
      lists.push(Array.from({ length: 2_000 }, (_, j) => ({ i, j })));
      new Uint8Array(400_000).fill(i);
    }
    return lists.length;
  };
  (async () => {
    for (let i = 0; i < 40; i++) {
      round();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
    const { maxRSS } = process.resourceUsage();
    console.log(JSON.stringify({ collections, mib: maxRSS / 1024 }));
  })();
`;

async function renders(flags: readonly string[]): Promise<{ collections: number; mib: number }> {
  const { stdout } = await run(process.execPath, [...flags, '-e', RENDERS]);
  return JSON.parse(stdout);
}

test('a process that renders collects all of its heap less often, and holds little more for it', async () => {
  const usual = await renders([]);
  const engine = await renders(ENGINE_FLAGS);
  expect(usual.collections).toBeGreaterThan(4);
  expect(engine.collections).toBeLessThan(usual.collections * 0.75);
  expect(engine.mib - usual.mib).toBeLessThan(400);
});
