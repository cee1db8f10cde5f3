/**
 * `npm run test:cluster [-- suite files]` starts a real one-node cluster, and builds and loads the images. It installs the chart, uses it, disturbs it, upgrades it, removes it, and tears the cluster down. Ends with the line `N passed, N failed`.
 *
 * --keep leaves the cluster running, for `node test/cluster/cluster.ts kubectl …` and `down`.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describeError } from '@semblance/common/errors';
import { defaultTag } from '../../images/arguments.ts';
import { clusterDir, clusterDown, clusterUp, loadImages } from './cluster.ts';

/** Number of volumes: more than all installations of a run claim, because a released volume is not used again. */
const VOLUMES = 12;
const root = join(import.meta.dirname, '..', '..');
const dir = clusterDir();
const begun = Date.now();
const say = (line: string) => console.log(`${Math.round((Date.now() - begun) / 1000)} s: ${line}`);
const keep = process.argv.includes('--keep');
/** Runs without enforcement of NetworkPolicies, to see that the tests of policies then fail. */
const policies = !process.argv.includes('--no-policies');
const files = process.argv.slice(2).filter((argument) => !['--keep', '--no-policies'].includes(argument));
const scratch = mkdtempSync(join(tmpdir(), 'semblance-cluster-report-'));
const report = join(scratch, 'report.json');
const building = new AbortController();
let interrupted = false;
let passed = 0;
let failed = 1;

process.on('SIGINT', () => onSignal());
process.on('SIGTERM', () => onSignal());
let child: ReturnType<typeof spawn> | undefined;
function onSignal(): void {
  interrupted = true;
  // The tests receive a Ctrl-C themselves; this process waits for them and continues to the end below.
  child?.kill('SIGTERM');
  building.abort(new Error('interrupted'));
}

try {
  const cluster = await clusterUp({ dir, volumes: VOLUMES, policies, say });
  if (!interrupted) await loadImages(cluster, await defaultTag(), say, building.signal);
  if (!interrupted) {
    const exit = await vitest();
    const json = JSON.parse(readFileSync(report, 'utf8')) as {
      numPassedTests: number;
      numFailedTests: number;
    };
    passed = json.numPassedTests;
    failed = json.numFailedTests || (exit === 0 ? 0 : 1);
  }
} catch (error) {
  console.error(describeError(error));
} finally {
  if (keep) say(`the cluster runs on: ${dir}`);
  else await clusterDown(dir).catch((error: unknown) => console.error(describeError(error)));
  rmSync(scratch, { recursive: true, force: true });
}
say('done');
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;

function vitest(): Promise<number> {
  const vitest = join(root, 'node_modules', '.bin', 'vitest');
  const args = ['run', '--config', 'test/cluster/vitest.config.ts', '--reporter=verbose', '--reporter=json'];
  child = spawn(vitest, [...args, `--outputFile.json=${report}`, ...files], {
    cwd: root,
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, SEMBLANCE_CLUSTER_DIR: dir },
  });
  return new Promise((resolve) => child?.on('close', (code) => resolve(code ?? 1)));
}
