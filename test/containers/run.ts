/**
 * `npm run test:containers` runs test files with PostgreSQL and NATS in containers, through testcontainers, and ends with the line `N passed, N failed`. The images are built here from the servers that the tests use anyway, so no registry is needed. The engine is that of DOCKER_HOST, or a podman for this run alone, which leaves nothing behind.
 *
 * Arguments go to vitest instead of the files below.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describeError } from '@semblance/common/errors';
import { openEngine } from './engine.ts';
import { writeNatsContext, writePostgresContext } from './images.ts';

const FILES = [
  'packages/testkit/servers/shared.test.ts',
  'packages/events/nats-bus.test.ts',
  'control-plane/storage',
  'control-plane/billing/ledger.test.ts',
  'control-plane/billing/books.test.ts',
  'control-plane/relay',
  'control-plane/webhooks/webhooks.test.ts',
];
const IMAGES = { postgres: 'localhost/semblance-test-postgres:1', nats: 'localhost/semblance-test-nats:1' };

const root = join(import.meta.dirname, '..', '..');
const dir = mkdtempSync(join(tmpdir(), 'semblance-containers-'));
const report = join(dir, 'report.json');
let passed = 0;
let failed = 1;
try {
  const engine = await openEngine(dir);
  try {
    console.log(`engine: ${engine.name}`);
    writePostgresContext(join(dir, 'postgres'));
    await writeNatsContext(join(dir, 'nats'));
    for (const [name, image] of Object.entries(IMAGES)) engine.build(image, join(dir, name));
    const files = process.argv.slice(2);
    const exit = await vitest(files.length ? files : FILES, {
      ...engine.env,
      SEMBLANCE_TEST_CONTAINERS: 'required',
      SEMBLANCE_TEST_POSTGRES_IMAGE: IMAGES.postgres,
      SEMBLANCE_TEST_NATS_IMAGE: IMAGES.nats,
    });
    const json = JSON.parse(readFileSync(report, 'utf8')) as {
      numPassedTests: number;
      numFailedTests: number;
    };
    passed = json.numPassedTests;
    failed = json.numFailedTests || (exit === 0 ? 0 : 1);
    const seen = engine.seen();
    console.log(`containers seen: ${seen.join(', ') || 'none'}`);
    if (seen.length === 0) failed ||= 1;
  } finally {
    await engine.close();
  }
} catch (error) {
  console.error(describeError(error));
  failed ||= 1;
} finally {
  rmSync(dir, { recursive: true, force: true });
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;

function vitest(args: string[], env: Record<string, string>): Promise<number> {
  const child = spawn(
    join(root, 'node_modules', '.bin', 'vitest'),
    ['run', '--reporter=default', '--reporter=json', `--outputFile.json=${report}`, ...args],
    { cwd: root, stdio: ['ignore', 'inherit', 'inherit'], env: { ...process.env, ...env } },
  );
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal));
  return new Promise((resolve) => child.on('close', (code) => resolve(code ?? 1)));
}
