import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { loadConfig } from '@semblance/common/config';
import { silentLogger } from '@semblance/common/logging';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createContentChecks } from './content-checks.ts';
import { contentCheckSettings, contentCheckShape } from './settings.ts';

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-content-checks-'));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

function checksOf(env: NodeJS.ProcessEnv) {
  const settings = contentCheckSettings(loadConfig(contentCheckShape, env));
  return createContentChecks({ settings, nice: 3, logger: silentLogger(), onResult: () => {} });
}

describe('content checks', () => {
  it.each([
    ['word-list', 'SEMBLANCE_CONTENT_WORD_LIST', 'fine\n\u0301\n', 'line 2: an entry without letters'],
    ['hash-list', 'SEMBLANCE_CONTENT_HASH_LIST', '# fine\nmd5 abc\n', 'line 2: an entry begins with'],
    ['word-list', 'SEMBLANCE_CONTENT_WORD_LIST', undefined, 'no such file'],
    ['hash-list', 'SEMBLANCE_CONTENT_HASH_LIST', undefined, 'no such file'],
  ])('with a %s that cannot be used (%s: %j) do not start', async (name, variable, text, why) => {
    const list = join(dir, 'list.txt');
    await rm(list, { force: true });
    if (text !== undefined) await writeFile(list, text);
    await expect(checksOf({ SEMBLANCE_CONTENT_CHECK: name, [variable]: list })).rejects.toMatchObject({
      name: 'ContentCheckError',
      message: expect.stringMatching(new RegExp(`list\\.txt cannot be used: .*${why}`)),
    });
  });

  it('start with lists that can be used, and say what they look at', async () => {
    const [words, hashes] = [join(dir, 'words.txt'), join(dir, 'hashes.txt')];
    await writeFile(words, 'pre-order\n');
    await writeFile(hashes, `sha256 ${'0'.repeat(64)}\n`);
    const checks = await checksOf({
      SEMBLANCE_CONTENT_CHECK: 'hash-list,word-list',
      SEMBLANCE_CONTENT_HASH_LIST: hashes,
      SEMBLANCE_CONTENT_WORD_LIST: words,
    });
    expect(checks.statement.checks).toEqual(['hash-list', 'word-list']);
    await checks.close();
  });

  it('give a file up that the hash list cannot get on with, after the time of the settings', async () => {
    const list = join(dir, 'list.txt');
    await writeFile(list, `sha256 ${'0'.repeat(64)}\n`);
    // Nobody writes into this pipe, so a read of it never ends.
    const path = join(dir, 'pipe');
    await promisify(execFile)('mkfifo', [path]);
    const checks = await checksOf({
      SEMBLANCE_CONTENT_CHECK: 'hash-list',
      SEMBLANCE_CONTENT_HASH_LIST: list,
      SEMBLANCE_CONTENT_CHECK_TIMEOUT_SECONDS: '1',
    });
    const files = [{ role: 'audio', path, kind: 'audio' as const }];
    const subject = { phase: 'input' as const, jobName: 'job', capability: 'avatar' as const };
    const signal = AbortSignal.timeout(20_000);
    const checking = checks.assertAllowed(
      { ...subject, parameters: {}, files },
      { signal, logger: silentLogger() },
    );
    await expect(checking).rejects.toThrow('the check hash-list came no further within 1 s');
    await checks.close();
  });
});
