import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { spawnGuarded } from '@semblance/common/process/child';
import { findOnPath } from '@semblance/common/process/find-on-path';
import { createGuard } from '@semblance/common/process/guard';
import { freePort } from '@semblance/local/process/ports';
import { cacheFolder } from '@semblance/local/toolchain/tools';

/** Versity S3 Gateway: a real S3 server over a folder. Only tests need it. */
const PACKAGE = 'github.com/versity/versitygw/cmd/versitygw';
const VERSION = 'v1.8.0';

export const S3_CREDENTIALS = { accessKeyId: 'semblance-test', secretAccessKey: 'semblance-test-secret' };

/** Starts an empty S3 server on a free loopback port. The caller stops it. */
export async function startS3Server(): Promise<{ endpoint: string; stop(): Promise<void> }> {
  const command = await s3ServerBinary();
  const folder = await mkdtemp(join(tmpdir(), 'semblance-s3-'));
  const data = join(folder, 'data');
  await mkdir(data);
  const port = await freePort();
  const endpoint = `http://127.0.0.1:${port}`;
  const guard = createGuard();
  await guard.removeOnDeath(folder);
  const logFile = join(folder, 'log');
  const child = await spawnGuarded({
    launch: {
      command,
      args: ['--port', `127.0.0.1:${port}`, '--health', '/health', '--quiet', 'posix', data],
      env: {
        ...process.env,
        ROOT_ACCESS_KEY: S3_CREDENTIALS.accessKeyId,
        ROOT_SECRET_KEY: S3_CREDENTIALS.secretAccessKey,
      },
    },
    guard,
    logFile,
    stopSignal: 'SIGTERM',
  });
  const stop = async () => {
    await child.stop(3_000);
    await rm(folder, { recursive: true, force: true });
    await guard.close();
  };
  const deadline = Date.now() + 60_000;
  for (;;) {
    const answer = await fetch(`${endpoint}/health`).catch(() => undefined);
    if (answer?.ok) return { endpoint, stop };
    if (Date.now() > deadline) {
      const log = await readFile(logFile, 'utf8').catch(() => '');
      await stop();
      throw new Error(`the S3 server did not start:\n${log.slice(-2000)}`);
    }
    await delay(50);
  }
}

/**
 * Returns the program from PATH or from the cache of tools. It builds it there first, which takes a minute or two.
 */
export async function s3ServerBinary(): Promise<string> {
  const found = findOnPath('versitygw');
  if (found) return found;
  const folder = join(cacheFolder(process.env), 'toolchain', `${process.platform}-${process.arch}`);
  const target = join(folder, `versitygw-${VERSION}`);
  if (existsSync(target)) return target;
  const go = findOnPath('go');
  if (!go)
    throw new Error('the tests of the S3 store need a real S3 server: versitygw on PATH, or Go to build it');
  await mkdir(folder, { recursive: true });
  // The program is built aside and renamed, so that an unfinished or concurrent build is never used.
  const unfinished = await mkdtemp(join(folder, '.unfinished-'));
  try {
    await promisify(execFile)(go, ['install', '-trimpath', '-ldflags=-s -w', `${PACKAGE}@${VERSION}`], {
      cwd: unfinished,
      env: { ...process.env, GOBIN: unfinished, GOFLAGS: '' },
      maxBuffer: 16 * 1024 * 1024,
    });
    await rename(join(unfinished, 'versitygw'), target);
  } finally {
    await rm(unfinished, { recursive: true, force: true });
  }
  return target;
}
