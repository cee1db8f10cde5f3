import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createGuard } from '@semblance/common/process/guard';
import { identify } from '@semblance/local/process/identity';
import { tailOf } from '@semblance/local/process/service';
import { eventually } from './eventually.ts';

/** Path of the repository. */
export const root = join(import.meta.dirname, '..', '..', '..');

/** Content of `stack.json`, the fixed handle of people and tools on a running stack. */
export interface StackFile {
  readonly base_url: string;
  readonly api_key: string;
  readonly account_id: string;
  readonly admin_token: string;
  readonly namespace: string;
  readonly kubeconfig: string;
  readonly postgres_url: string;
  readonly nats_url: string;
  readonly services: Readonly<Record<string, number>>;
}

export const SERVICE_NAMES = [
  'postgres',
  'nats',
  'etcd',
  'kube-apiserver',
  'control-plane',
  'operator',
  'gateway',
  'gpu-agent',
] as const;

export function readStackFile(path: string): StackFile {
  return JSON.parse(readFileSync(path, 'utf8')) as StackFile;
}

/** Returns `host:port` of the control plane, from the file beside `stack.json`. */
export function readControlAddress(stackFile: string): string {
  const text = readFileSync(join(dirname(stackFile), 'control.json'), 'utf8');
  return (JSON.parse(text) as { control_address: string }).control_address;
}

/** Stack of the test: `npm start` in a process and a state folder of its own. */
export interface StackProcess {
  /** Pid of the process that supervises the services. */
  readonly pid: number;
  readonly stateDir: string;
  /** Path of its `stack.json`. */
  readonly file: string;
  /** Returns the output so far. */
  output(): string;
  /** Interrupts the stack as Ctrl-C does. Resolves with its exit status; `null` when a signal ended it. */
  interrupt(): Promise<number | null>;
  /** Ends the stack if it still runs, and removes its state. */
  close(): Promise<void>;
}

/** Longest start in ms. With everything prepared it takes about ten seconds, but other tests may use both cores. */
const READY_WITHIN_MS = 220_000;
/** Time in ms after which a stack that does not end is killed and the caller gets an error. */
const STOP_WITHIN_MS = 90_000;

/** Environment of a stack without live sessions, whose warm-up takes seconds at each start of the agent. */
export const WITHOUT_LIVE = { SEMBLANCE_LIVE_VOICE_SLOTS: '0', SEMBLANCE_LIVE_VIDEO_SLOTS: '0' } as const;

/**
 * Starts `node local/start.ts`; resolves when its `stack.json` is valid. The stack ends with `close()` or with this
 * process, however that ends.
 *
 * @param options.stateDir state to continue with; default: a new folder, which `close()` removes
 */
export async function startStackProcess(
  options: { stateDir?: string; env?: NodeJS.ProcessEnv } = {},
): Promise<StackProcess> {
  const stateDir = options.stateDir ?? (await mkdtemp(join(tmpdir(), 'semblance-stack-')));
  await mkdir(stateDir, { recursive: true });
  const guard = createGuard({ graceMs: 15_000 });
  if (!options.stateDir) await guard.removeOnDeath(stateDir);
  const file = join(stateDir, 'stack.json');
  const logFile = join(stateDir, 'start.output');

  const log = openSync(logFile, 'a', 0o600);
  let child: ChildProcess;
  try {
    // Its own process group keeps Ctrl-C at the terminal from the stack; the test runner then ends the stack in
    // order.
    child = spawn(process.execPath, ['local/start.ts'], {
      cwd: root,
      detached: true,
      stdio: ['ignore', log, log],
      env: { ...cleanEnv(), ...options.env, SEMBLANCE_STATE_DIR: stateDir },
    });
  } finally {
    closeSync(log);
  }
  let ended = false;
  const exited = new Promise<number | null>((resolve) => {
    child.once('error', () => resolve(null));
    child.once('exit', (code) => resolve(code));
  }).finally(() => {
    ended = true;
  });
  const pid = child.pid;
  if (pid === undefined) throw new Error('cannot start local/start.ts');
  await guard.watch(pid, 'SIGINT');
  void exited.then(() => guard.forget(pid));

  const output = () => tailOf(logFile, 200);
  const interrupt = async () => {
    if (!ended) process.kill(pid, 'SIGINT');
    const timer = setTimeout(() => {
      if (!ended) process.kill(-pid, 'SIGKILL');
    }, STOP_WITHIN_MS);
    try {
      return await exited;
    } finally {
      clearTimeout(timer);
    }
  };
  const close = async () => {
    if (!ended) await interrupt();
    await guard.close();
    if (!options.stateDir) await rm(stateDir, { recursive: true, force: true });
  };

  try {
    await eventually('stack.json', () => (ended ? 'ended' : readyFile(file)), {
      withinMs: READY_WITHIN_MS,
      everyMs: 50,
    });
    if (ended) throw new Error('it ended at start');
  } catch (cause) {
    const said = output();
    await close();
    throw new Error(`the stack did not start; its last words:\n${said}`, { cause });
  }
  return { pid, stateDir, file, output, interrupt, close };
}

/** The file of a former start names dead processes, so all named processes must run. */
function readyFile(file: string): 'ready' | undefined {
  const { services } = readStackFile(file);
  const running = SERVICE_NAMES.every((name) => identify(services[name] ?? 0));
  return running ? 'ready' : undefined;
}

/** Returns the environment without settings of another stack, of a user's cluster or of the test runner. */
export function cleanEnv(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) =>
      (!name.startsWith('SEMBLANCE_') || name === 'SEMBLANCE_CACHE_DIR') &&
      !/^(KUBECONFIG$|VITEST|NODE_ENV$|NODE_OPTIONS$|TEST$|DEV$|PROD$|MODE$|SSR$|BASE_URL$)/.test(name),
  );
  return Object.fromEntries(kept);
}
