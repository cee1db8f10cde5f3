import { missingNeeds, testNeeds } from '@semblance/testkit/stack/programs';
import { defineConfig } from 'vitest/config';

const missing = new Set((await missingNeeds()).map(({ tag }) => tag));

export default defineConfig({
  test: {
    include: [
      '{common,gateway,control-plane,operator,gpu-agent,local,crds,packages,tools}/**/*.test.ts',
      'test/**/*.test.ts',
      'charts/semblance/*.test.ts',
      'images/*.test.ts',
    ],
    // Tests say by `@module-tag` or `tags` what they need beside `npm ci`; a machine without it leaves them out.
    tags: (await testNeeds()).map(({ tag, packages }) => ({
      name: tag,
      description: `needs ${packages}`,
      ...(missing.has(tag) && { skip: true }),
    })),
    // Real PostgreSQL, NATS and Kubernetes API for the whole run, started when a test first asks for them.
    // The second offers a whole running stack to the suites that span services.
    globalSetup: ['packages/testkit/servers/setup.ts', 'packages/testkit/stack/stack-setup.ts'],
    pool: 'forks',
    // Two cores: more files at once only makes the real servers in them wait for each other.
    maxWorkers: 2,
    // What hangs is found as well by long limits, and no test fails because the machine is busy.
    testTimeout: 120_000,
    hookTimeout: 240_000,
    teardownTimeout: 120_000,
    // Long enough for a server that stands still for seconds; vitest's own second is none.
    expect: { poll: { timeout: 20_000 } },
  },
});
