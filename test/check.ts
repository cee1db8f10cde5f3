/**
 * `npm run check` checks types, lint, format, schemas, and generated files against their sources. Every step runs even when an earlier one failed, so that one run shows all faults.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface CheckResult {
  readonly name: string;
  readonly ok: boolean;
  readonly output: string;
}

const root = join(import.meta.dirname, '..');

function run(name: string, command: string, ...args: string[]): CheckResult {
  const bin = join(root, 'node_modules', '.bin', command);
  const { status, stdout, stderr, error } = spawnSync(bin, args, {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  });
  return { name, ok: status === 0, output: error ? String(error) : stdout + stderr };
}

function lint(): CheckResult {
  const result = run('lint and format', 'biome', 'ci', '--colors=off', '--error-on-warnings', '.');
  return result.ok
    ? result
    : { ...result, output: `${result.output}\n\`npm run format\` repairs the format.\n` };
}

/** Generates into a scratch folder and compares the result with the files in the tree. */
function upToDate(name: string, current: string, generate: (scratch: string) => CheckResult): CheckResult {
  const scratch = mkdtempSync(join(tmpdir(), 'semblance-check-'));
  try {
    const made = generate(scratch);
    if (!made.ok) return { ...made, name };
    const stale = differing(join(root, current), scratch);
    const output = stale.length ? `out of date, run \`npm run generate\`: ${stale.join(', ')}` : '';
    return { name, ok: stale.length === 0, output };
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

function differing(a: string, b: string): string[] {
  const files = (dir: string) => {
    try {
      return readdirSync(dir, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name).slice(dir.length + 1));
    } catch {
      return [];
    }
  };
  const text = (dir: string, file: string) => {
    try {
      // The files are compared byte by byte, because some of them are not text.
      return readFileSync(join(dir, file), 'latin1');
    } catch {
      return undefined;
    }
  };
  return [...new Set([...files(a), ...files(b)])].filter((file) => text(a, file) !== text(b, file));
}

/** Runs all checks. Calls `onResult` after each. */
export function runChecks(onResult: (result: CheckResult) => void): CheckResult[] {
  const steps = [
    () => run('types', 'tsc', '--noEmit'),
    () => run('types in the browser', 'tsc', '-p', 'gateway/try-page/page'),
    () => run('types of the console', 'tsc', '-p', 'console'),
    () => lint(),
    () =>
      run('unused files, exports and packages', 'knip', '--no-progress', '--treat-config-hints-as-errors'),
    () => run('proto lint', 'buf', 'lint'),
    () =>
      upToDate('generated protos', 'proto/gen', (scratch) => {
        const template = { version: 'v2', plugins: [{ ...protoPlugin(), out: scratch }] };
        return run('buf generate', 'buf', 'generate', '--template', JSON.stringify(template));
      }),
    () =>
      upToDate('generated resource types', 'crds/gen', (scratch) =>
        run('crds/generate.ts', 'node', 'crds/generate.ts', scratch),
      ),
    () =>
      upToDate('compiled kernels', 'packages/voice/kernels/gen', (scratch) =>
        run('kernels/generate.ts', 'node', 'packages/voice/kernels/generate.ts', scratch),
      ),
    () =>
      upToDate('compiled wall', 'packages/media/wall/gen', (scratch) =>
        run('wall/build.ts', 'node', 'packages/media/wall/build.ts', scratch),
      ),
    () =>
      upToDate('converted networks', 'packages/vision/models/gen', (scratch) =>
        run('convert-models/convert.ts', 'node', 'tools/convert-models/convert.ts', scratch),
      ),
    () =>
      upToDate('built console', 'console/dist', (scratch) =>
        run('console/build.ts', 'node', 'console/build.ts', scratch),
      ),
    () =>
      upToDate('resource definitions of the chart', 'charts/semblance/files/crds', (scratch) =>
        run('crds/copy-to-chart.ts', 'node', 'crds/copy-to-chart.ts', scratch),
      ),
  ];
  return steps.map((step) => {
    const result = step();
    onResult(result);
    return result;
  });
}

function protoPlugin(): { local: string; opt: string[] } {
  const text = readFileSync(join(root, 'proto', 'buf.gen.yaml'), 'utf8');
  const opt = [...text.matchAll(/^\s+- ([A-Za-z]+=.*)$/gm)].map((match) => match[1] as string);
  return { local: 'protoc-gen-ts_proto', opt };
}

export function printCheck({ name, ok, output }: CheckResult): void {
  console.log(`${ok ? '✓' : '✗'} ${name}`);
  if (!ok) console.log(output.replace(/^/gm, '    '));
}

if (import.meta.main) {
  const results = runChecks(printCheck);
  process.exitCode = results.every(({ ok }) => ok) ? 0 : 1;
}
