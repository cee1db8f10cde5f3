/**
 * Runs tests and ends with the line `N passed, N failed`. Exits non-zero when anything failed or nothing ran.
 *
 * - `npm run test:unit`: tests that reach no server, network or program; nothing is prepared.
 * - `npm test`: the checks, each of which counts as a test, the unit tests, the contract and one run of each
 *   capability.
 * - `npm run test:rest`: everything else; with NIGHTLY=1 also tests of protection against a machine that stands
 *   still, and of the sidecar `diffusers` with torch.
 * - `npm test -- WORD…`: files of all suites whose paths contain one of the words, without checks. Options go to
 *   vitest.
 *
 * With CI set, the output of vitest and of the programs under test goes to `test-out/<suite>.log`, because much of
 * it is about faults that tests cause. Printed are the number of files every five minutes and, at the end, the
 * failures: first a line for each, then in full. The lines come first, because a CI may show only the beginning of
 * a long output.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { describeError } from '@semblance/common/errors';
import { testNeeds } from '@semblance/testkit/stack/programs';
import { type CheckResult, printCheck, runChecks } from './check.ts';
import { prepare } from './prepare.ts';
import { type Suite, suiteFiles } from './suites.ts';

const COMMANDS: Readonly<Record<string, readonly Suite[]>> = {
  unit: ['unit'],
  main: ['unit', 'main'],
  rest: process.env.NIGHTLY ? ['rest', 'nightly'] : ['rest'],
};
const [command = '', ...args] = process.argv.slice(2);
const words = args.filter((argument) => !argument.startsWith('-')).map((word) => word.replace(/^\.\//, ''));
const suites = COMMANDS[command];
if (!suites) throw new Error(`node test/run.ts ${Object.keys(COMMANDS).join('|')} [WORD…]`);

const root = join(import.meta.dirname, '..');
const scratch = mkdtempSync(join(tmpdir(), 'semblance-test-'));
const report = join(scratch, 'report.json');
const log = process.env.CI ? join(root, 'test-out', `${command}.log`) : undefined;
const PROGRESS_MS = 300_000;
/** Most characters of an error's first line in the list of failures. */
const SHOWN_OF_ERROR = 200;

const checks: CheckResult[] = command === 'main' && words.length === 0 ? runChecks(printCheck) : [];
const exit = (await prepared()) ? await runVitest() : 1;
const tests = readReport();
rmSync(scratch, { recursive: true, force: true });

const failedChecks = checks.filter(({ ok }) => !ok).length;
let failed = tests.failed + failedChecks;
// A crash of the runner or an error outside any test must not end as "0 failed".
if (exit !== 0 && failed === 0) failed = 1;
for (const line of tests.failures) console.log(line);
if (log && exit !== 0 && existsSync(log)) console.log(whatFailed(log));
const lacks = (await testNeeds()).filter(({ lack }) => lack !== undefined);
if (lacks.length > 0 && tests.leftOut > 0) {
  console.log(`${tests.leftOut} tests left out, some for want of these packages of Debian:`);
  for (const { packages, lack } of lacks) console.log(`  ${packages} (${lack})`);
}
const passed = tests.passed + checks.length - failedChecks;
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || tests.passed === 0 ? 1 : 0;

/** Builds and fetches what the chosen files need, because the time limits of tests leave no time for it. */
async function prepared(): Promise<boolean> {
  const files = suiteFiles();
  const chosen = words.length
    ? Object.values(files)
        .flat()
        .filter((file) => words.some((word) => file.includes(word)))
    : (suites ?? []).flatMap((suite) => files[suite]);
  try {
    await prepare(chosen);
    return true;
  } catch (error) {
    console.error(describeError(error));
    return false;
  }
}

async function runVitest(): Promise<number> {
  const projects = words.length ? [] : (suites ?? []).map((suite) => `--project=${suite}`);
  const cores = Math.max(2, availableParallelism());
  // Unit tests share no server, and wait for timers more than they compute. Of the longest files of the rest some wait
  // for leases and kills, at less than half a core.
  const workers = words.length > 0 ? undefined : { unit: 2 * cores, rest: cores + 1 }[command];
  const output = log ? open(log) : 'inherit';
  const vitest = spawn(
    join(root, 'node_modules', '.bin', 'vitest'),
    [
      'run',
      '--reporter=default',
      '--reporter=json',
      `--outputFile.json=${report}`,
      ...(workers ? [`--maxWorkers=${workers}`] : []),
      ...projects,
      ...args,
    ],
    { cwd: root, stdio: ['ignore', output, output] },
  );
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => vitest.kill(signal));
  const progress = log ? setInterval(() => printProgress(log), PROGRESS_MS) : undefined;
  const code = await new Promise<number | null>((resolve) => vitest.on('close', resolve));
  clearInterval(progress);
  return code ?? 1;
}

function open(path: string): number {
  mkdirSync(join(path, '..'), { recursive: true });
  return openSync(path, 'w');
}

/**
 * Returns the part of the log about failures, which the runner prints at the end. After a crash there is none; then
 * it returns the last lines.
 */
function whatFailed(path: string): string {
  const lines = printed(path);
  const from = lines.findIndex((line) => /^⎯+ (Failed Suites|Failed Tests|Unhandled Errors) /.test(line));
  return (from < 0 ? lines.slice(-100) : lines.slice(from, from + 1_000)).join('\n');
}

function printed(path: string): string[] {
  return stripVTControlCharacters(readFileSync(path, 'utf8')).split('\n');
}

function printProgress(path: string): void {
  // The line of a file continues with `(12 tests …)`; without that, lines of stack traces would match too.
  const files = printed(path).filter((line) => /^ [✓❯×] .*\.test\.ts \(/.test(line));
  console.log(
    `${files.length} test files done, ${files.filter((line) => !line.startsWith(' ✓')).length} with failures`,
  );
}

/** Reads the report. A file that fails to load, or before its tests, has no failed test and counts as one failure. */
function readReport(): { passed: number; failed: number; leftOut: number; failures: string[] } {
  try {
    const json = JSON.parse(readFileSync(report, 'utf8')) as Report;
    const failures: string[] = [];
    for (const { name, status, message, assertionResults } of json.testResults) {
      const file = relative(root, name);
      const failed = assertionResults.filter((test) => test.status === 'failed');
      for (const { fullName, failureMessages } of failed)
        failures.push(failure(`${file}: ${fullName}`, failureMessages[0]));
      if (status === 'failed' && !failed.length) failures.push(failure(file, message));
    }
    const { numPassedTests: passed, numPendingTests: leftOut } = json;
    return { passed, leftOut, failed: failures.length, failures };
  } catch {
    return { passed: 0, leftOut: 0, failed: 1, failures: ['vitest left no report'] };
  }
}

function failure(what: string, error = ''): string {
  const [first = ''] = stripVTControlCharacters(error).split('\n');
  return `FAILED ${what}: ${first.slice(0, SHOWN_OF_ERROR)}`;
}

interface Report {
  readonly numPassedTests: number;
  readonly numPendingTests: number;
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly message?: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly status: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}
