import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { setPriority } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { lock } from '../process/lock.ts';
import type { Progress, Report } from './progress.ts';
import {
  cachedPath,
  cacheFolder,
  moduleFolder,
  pinnedVersion,
  TOOLS,
  ToolchainError,
  type ToolName,
} from './tools.ts';

/** Niceness of the compiler, which keeps the machine usable during a build of minutes. */
const NICENESS = 10;
const UNFINISHED = '.unfinished-';

export type BuildOptions = {
  tools: ToolName[];
  /** Absolute path of the go command. */
  go: string;
  env: NodeJS.ProcessEnv;
  report: Report;
  signal?: AbortSignal;
};

/**
 * Builds tools into the cache, one after the other. Go's module and build caches are used as the user configured
 * them, so an interrupted build resumes. A second process that wants the same tools waits for this one.
 */
export async function buildTools(options: BuildOptions): Promise<void> {
  const { tools, env, report, signal } = options;
  await mkdir(cacheFolder(env), { recursive: true });
  const startedAt = Date.now();
  const held = await lock(join(cacheFolder(env), 'toolchain', 'build.lock'), {
    signal,
    onWait: (holder) => {
      const detail = `another process${holder ? ` (pid ${holder})` : ''} is building it`;
      report({ ...progressOf(tools, 0, startedAt), phase: 'waiting', detail });
    },
  });
  try {
    // The former holder of the lock may have built some of them.
    const missing = tools.filter((tool) => !existsSync(cachedPath(tool, env)));
    if (missing.length > 0) {
      const names = missing.map((tool) => `${tool} ${pinnedVersion(tool)}`).join(', ');
      const detail = `${names}, into ${join(cacheFolder(env), 'toolchain')}`;
      report({ ...progressOf(missing, 0, Date.now()), phase: 'planned', detail });
    }
    for (const [index, tool] of missing.entries()) {
      const begun = Date.now();
      await build(tool, options, (progress) => report({ ...progressOf(missing, index, begun), ...progress }));
    }
  } finally {
    held.release();
  }
}

type Step = Pick<Progress, 'phase'> & Partial<Progress>;

async function build(tool: ToolName, options: BuildOptions, report: (step: Step) => void): Promise<void> {
  const { go, signal } = options;
  const target = cachedPath(tool, options.env);
  const folder = dirname(target);
  await mkdir(folder, { recursive: true });
  for (const name of await readdir(folder)) {
    if (name.startsWith(UNFINISHED)) await rm(join(folder, name), { recursive: true, force: true });
  }
  const unfinished = join(folder, `${UNFINISHED}${process.pid}-${basename(target)}`);
  const cwd = moduleFolder(tool);
  const env = buildEnvironment(options.env);
  // The linker drops debug information (-s -w); making it first would be a tenth of the compiler's work.
  const flags = ['-trimpath', '-gcflags=all=-dwarf=false', `-ldflags=${linkerFlags(tool)}`];
  const run = (args: string[], onLine: (line: string, from: 'stdout' | 'stderr') => void) =>
    runGo({ go, args, cwd, env, signal, onLine, what: `${tool} ${pinnedVersion(tool)}` });

  let done = 0;
  report({ phase: 'downloading', done, total: 0 });
  // This lists the packages that are not in the build cache. Meanwhile Go downloads exactly what the build needs.
  let total = 0;
  await run(
    ['list', '-deps', ...flags, '-f', '{{if .Stale}}{{.ImportPath}}{{end}}', TOOLS[tool].package],
    (line, from) => {
      if (from === 'stdout') total++;
      else if (line.startsWith('go: downloading ')) report({ phase: 'downloading', done: ++done, total: 0 });
    },
  );

  done = 0;
  report({ phase: 'compiling', done, total });
  // The largest package takes half a minute, so the elapsed time is reported even while no package is finished.
  const ticker = setInterval(
    () => report({ phase: done < total - 1 ? 'compiling' : 'linking', done, total }),
    1_000,
  );
  try {
    await run(['build', '-v', ...flags, '-o', unfinished, TOOLS[tool].package], (line) => {
      if (line.startsWith('go: ')) return;
      done = Math.min(done + 1, total);
      report({ phase: done < total - 1 ? 'compiling' : 'linking', done, total });
    });
    await rename(unfinished, target);
  } finally {
    clearInterval(ticker);
    await rm(unfinished, { force: true });
  }
  report({ phase: 'built', done: total, total });
}

function progressOf(tools: ToolName[], index: number, begun: number): Progress {
  const tool = tools[index];
  return {
    what: tool ? `${tool} ${pinnedVersion(tool)}` : '',
    step: index + 1,
    steps: tools.length,
    phase: 'waiting',
    done: 0,
    total: 0,
    elapsedMs: Date.now() - begun,
  };
}

/**
 * Returns linker flags with the versions that the programs report. Without them clients take kube-apiserver for
 * version 0.0.
 */
function linkerFlags(tool: ToolName): string {
  const { module } = TOOLS[tool];
  if (module === 'kubernetes') {
    const version = pinnedVersion(tool);
    const [major, minor] = version.split('.');
    return defined(['k8s.io/component-base/version', 'k8s.io/client-go/pkg/version'], {
      gitVersion: `v${version}`,
      gitMajor: major,
      gitMinor: minor,
    });
  }
  if (module === 'helm') {
    // `helm template` and `helm lint` assume the Kubernetes version of helm's client: client-go 0.37 means 1.37.
    const goMod = readFileSync(join(moduleFolder(tool), 'go.mod'), 'utf8');
    const minor = /^\s*k8s\.io\/client-go v0\.(\d+)\./m.exec(goMod)?.[1];
    return [
      defined(['helm.sh/helm/v3/internal/version'], { version: `v${pinnedVersion(tool)}` }),
      defined(['helm.sh/helm/v3/pkg/chartutil', 'helm.sh/helm/v3/pkg/lint/rules'], {
        k8sVersionMajor: '1',
        k8sVersionMinor: minor,
      }),
    ].join(' ');
  }
  return defined([], {});
}

function defined(packages: string[], values: Record<string, string | undefined>): string {
  return packages
    .flatMap((name) => Object.entries(values).map(([variable, value]) => `-X ${name}.${variable}=${value}`))
    .reduce((flags, flag) => `${flags} ${flag}`, '-s -w');
}

/** Returns the user's environment without settings that would change what is built or for which machine. */
function buildEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const { GOOS: _os, GOARCH: _arch, GOBIN: _bin, ...rest } = env;
  const goflags = (env.GOFLAGS ?? '')
    .split(/\s+/)
    .filter((flag) => flag && !/^-(mod|modfile|o|tags|buildmode|overlay)=/.test(flag));
  // Compilers live for seconds, so rare garbage collections save more time than the memory is worth.
  return { GOGC: '400', ...rest, CGO_ENABLED: '0', GOWORK: 'off', GOFLAGS: goflags.join(' ') };
}

function runGo(options: {
  go: string;
  args: string[];
  cwd: string;
  env: NodeJS.ProcessEnv;
  signal?: AbortSignal;
  what: string;
  onLine: (line: string, from: 'stdout' | 'stderr') => void;
}): Promise<void> {
  const { go, args, cwd, env, signal, what, onLine } = options;
  return new Promise((resolve, reject) => {
    // If this process dies, the child ends at its next line of progress, because the pipe is closed.
    const child = spawn(go, args, { cwd, env, signal, stdio: ['ignore', 'pipe', 'pipe'] });
    if (child.pid !== undefined) lowerPriority(child.pid);
    const tail: string[] = [];
    createInterface({ input: child.stdout }).on('line', (line) => onLine(line, 'stdout'));
    createInterface({ input: child.stderr }).on('line', (line) => {
      tail.push(line);
      if (tail.length > 20) tail.shift();
      onLine(line, 'stderr');
    });
    child.once('error', reject);
    child.once('close', (code, killedBy) => {
      if (code === 0) return resolve();
      const why = killedBy ? `was killed by ${killedBy}` : `ended with status ${code}`;
      const hint = tail.some((line) => /requires go >=/.test(line))
        ? '\nGo is too old: install the version named above, or allow it to fetch one with GOTOOLCHAIN=auto.'
        : '';
      reject(
        new ToolchainError(
          'build_failed',
          `building ${what}: go ${args[0]} ${why}:\n${tail.join('\n')}${hint}`,
        ),
      );
    });
  });
}

function lowerPriority(pid: number): void {
  try {
    setPriority(pid, NICENESS);
  } catch {
    // The child is already gone, or this is not permitted; then it builds at normal priority.
  }
}
