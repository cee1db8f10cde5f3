import { execFileSync } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createLogger, type Logger } from '@semblance/common/logging';
import { createHarness, type Harness, until } from '@semblance/testkit/gpu-agent/harness';
import { COUNTED_STARTS, TEST_ENGINE } from '@semblance/testkit/gpu-agent/test-engine';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

let harness: Harness;
beforeAll(async () => {
  harness = await createHarness();
});
afterAll(() => harness.close());

function watchedLogger(): { readonly logger: Logger; readonly errors: string[] } {
  const errors: string[] = [];
  const destination = { write: (line: string) => void errors.push(line) };
  return { logger: createLogger({ service: 'test', level: 'error', destination }), errors };
}

describe('an agent that is still starting', () => {
  it('keeps an engine that is warm before its other parts are', async () => {
    const { logger, errors } = watchedLogger();
    // The word check reads this pipe at the start, and waits until the test writes to it.
    const words = join(harness.dir, 'words');
    execFileSync('mkfifo', [words]);
    const starting = harness.agent({
      logger,
      engines: [{ ...COUNTED_STARTS, settings: { folder: harness.dir } }],
      env: {
        SEMBLANCE_AGENT_SLOTS: '1',
        SEMBLANCE_CONTENT_CHECK: 'word-list',
        SEMBLANCE_CONTENT_WORD_LIST: words,
      },
    });
    starting.catch(() => {});
    const starts = () =>
      readFile(join(harness.dir, 'starts'), 'utf8').then(
        (text) => text.trim().split('\n'),
        () => [],
      );
    try {
      await until(async () => (await starts()).length > 0, 'the engine is warm');
      // If the engine's process crashed, the waiting agent would notice that in this time and start another after
      // 0.1 s.
      await delay(2_000);
    } finally {
      await writeFile(words, 'word\n');
    }
    const agent = await starting;
    await until(async () => (await agent.resource())?.status?.slots === 1, 'a slot');
    expect(await starts()).toHaveLength(1);
    expect(errors).toEqual([]);
  });

  it('says of a device that is missing from the beginning what it is, and takes it when it is there', async () => {
    const { logger, errors } = watchedLogger();
    const device = join(harness.dir, 'device');
    const starting = harness.agent({
      logger,
      engines: [{ ...TEST_ENGINE, shared: true, devices: [device] }],
    });
    starting.catch(() => {});
    await until(() => errors.length >= 2, 'the start was tried');
    await writeFile(device, '');
    const agent = await starting;
    await until(async () => (await agent.resource())?.status?.slots === 2, 'two slots');
    for (const line of errors) expect(line).toContain(`the device ${device} is gone`);
  });
});
