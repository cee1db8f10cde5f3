import { relative } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { ROOT } from './structure/workspaces.ts';

/**
 * Test files that take over a minute, longest first. A file that waits stands beside one that computes, because two
 * run at once.
 */
export const LONGEST: readonly string[] = [
  'test/chaos/kill.test.ts',
  'gpu-agent/conformance/builtin.test.ts',
  'test/e2e/lifecycle.test.ts',
  'packages/engine-builtin/identity-swap/identity-swap.test.ts',
  'test/chaos/outage.test.ts',
  'test/bench/realism/cases/occlude.test.ts',
  'test/chaos/sessions.test.ts',
  'gpu-agent/engines/onnx-process.test.ts',
  'test/integration/two-of-each.test.ts',
  'test/conformance/rate-limit.test.ts',
  'test/e2e/npm-start.test.ts',
];

/**
 * Runs the longest files first, so that none of them runs on alone at the end. Without earlier results, vitest
 * begins with the files that have the most bytes.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const place = LONGEST.indexOf(relative(ROOT, moduleId));
      return place < 0 ? LONGEST.length : place;
    };
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b));
  }
}
