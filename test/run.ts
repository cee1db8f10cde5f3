/**
 * `npm test`: the checks, then every test file. Ends with the one line `N passed, N failed`, in which each check
 * counts as a test, and exits non-zero when anything failed or nothing ran.
 *
 * Arguments go to vitest: `npm test -- common operator` runs the files whose paths contain either word.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describeError } from '../common/errors.ts';
import { s3ServerBinary } from '../common/objects/testing/s3-server.ts';
import { progressPrinter } from '../local/toolchain/progress.ts';
import { resolveTools } from '../local/toolchain/toolchain.ts';
import { TOOLS, type ToolName } from '../local/toolchain/tools.ts';
import { printCheck, runChecks } from './check.ts';

const root = join(import.meta.dirname, '..');
const scratch = mkdtempSync(join(tmpdir(), 'semblance-test-'));
const report = join(scratch, 'report.json');

const checks = runChecks(printCheck);
const exit = (await prepareServers()) ? await runVitest(process.argv.slice(2)) : 1;
const tests = readReport();
rmSync(scratch, { recursive: true, force: true });

const failedChecks = checks.filter(({ ok }) => !ok).length;
let failed = tests.failed + failedChecks;
// A crash of the runner or an error outside any test must not end as "0 failed".
if (exit !== 0 && failed === 0) failed = 1;
const passed = tests.passed + checks.length - failedChecks;
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || tests.passed === 0 ? 1 : 0;

/** What real servers have to be built is built before the tests, whose time limits do not allow for it. */
async function prepareServers(): Promise<boolean> {
  try {
    await resolveTools(Object.keys(TOOLS) as ToolName[], { report: progressPrinter(process.stderr) });
    await s3ServerBinary();
    return true;
  } catch (error) {
    console.error(describeError(error));
    return false;
  }
}

function runVitest(args: string[]): Promise<number> {
  const vitest = spawn(
    join(root, 'node_modules', '.bin', 'vitest'),
    ['run', '--reporter=default', '--reporter=json', `--outputFile.json=${report}`, ...args],
    { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] },
  );
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => vitest.kill(signal));
  return new Promise((resolve) => vitest.on('close', (code) => resolve(code ?? 1)));
}

/** Files that fail to load carry no test; each counts as one failure. */
function readReport(): { passed: number; failed: number } {
  try {
    const json = JSON.parse(readFileSync(report, 'utf8')) as {
      numPassedTests: number;
      numFailedTests: number;
      testResults: { status: string; assertionResults: unknown[] }[];
    };
    const unloaded = json.testResults.filter(
      ({ status, assertionResults }) => status === 'failed' && !assertionResults.length,
    );
    return { passed: json.numPassedTests, failed: json.numFailedTests + unloaded.length };
  } catch {
    return { passed: 0, failed: 1 };
  }
}
