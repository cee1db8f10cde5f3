import { availableParallelism } from 'node:os';
import { NODE_FLAGS } from '@semblance/common/node-flags';
import { testNeeds } from '@semblance/testkit/stack/programs';
import { defineConfig } from 'vitest/config';
import { LongestFirst } from './test/longest-first.ts';
import { SUITES, suiteFiles } from './test/suites.ts';

const files = suiteFiles();

export default defineConfig({
  test: {
    // Tests say by `@module-tag` or `tags` what they need beside `npm ci`; a machine without it leaves them out.
    tags: (await testNeeds()).map(({ tag, packages, lack }) => ({
      name: tag,
      description: `needs ${packages}`,
      ...(lack !== undefined && { skip: true }),
    })),
    projects: SUITES.map((name) => ({
      extends: true,
      test: {
        name,
        include: files[name],
        // The first setup starts real PostgreSQL, NATS and Kubernetes API, once per run, when a test first asks for
        // them. The second offers a whole running stack to suites that span services.
        globalSetup:
          name === 'unit'
            ? []
            : ['packages/testkit/servers/setup.ts', 'packages/testkit/stack/stack-setup.ts'],
      },
    })),
    sequence: { sequencer: LongestFirst },
    pool: 'forks',
    execArgv: [...NODE_FLAGS],
    // The real servers share the cores with the test files, so more files at once would only wait for each other.
    maxWorkers: Math.max(2, availableParallelism()),
    // Long limits also find what hangs, and no test fails because the machine is busy.
    testTimeout: 120_000,
    hookTimeout: 240_000,
    teardownTimeout: 120_000,
    // A server may stand still for seconds, and vitest's default of one second is too short for that.
    expect: { poll: { timeout: 20_000 } },
  },
});
