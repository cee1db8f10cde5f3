import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Runs the files one after the other by name, because each takes the release as the former one left it. */
class InOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return files.toSorted((a, b) => a.moduleId.localeCompare(b.moduleId));
  }
}

export default defineConfig({
  test: {
    root: `${import.meta.dirname}/../..`,
    include: ['test/cluster/suite/*.cluster.ts'],
    setupFiles: ['test/cluster/suite/setup.ts'],
    fileParallelism: false,
    sequence: { sequencer: InOrder },
    // Without a release no later test can succeed.
    bail: 1,
    testTimeout: 300_000,
    hookTimeout: 360_000,
  },
});
