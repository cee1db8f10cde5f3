import { execFile, execFileSync, spawn } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { findOnPath } from '@semblance/common/process/find-on-path';
import { httpGet } from '@semblance/local/process/http-get';

/** Most open files and processes of a container. A user who may not raise limits gives it fewer. */
const LIMIT = 16_384;

export interface Engine {
  readonly name: string;
  /** Environment with which testcontainers finds the engine. */
  readonly env: Readonly<Record<string, string>>;
  build(image: string, context: string): void;
  /** Returns the images of the containers that ran since the engine was opened here. */
  seen(): string[];
  close(): Promise<void>;
}

/**
 * Opens the Docker engine of DOCKER_HOST, or else a podman for this run alone.
 * @throws Error when there is neither
 */
export async function openEngine(dir: string): Promise<Engine> {
  if (process.env.DOCKER_HOST) return dockerEngine(process.env.DOCKER_HOST);
  if (!findOnPath('podman', process.env.PATH))
    throw new Error('neither DOCKER_HOST is set nor podman is installed (Debian: apt install podman runc)');
  return podmanEngine(dir);
}

function dockerEngine(host: string): Engine {
  const docker = (...args: string[]) => run('docker', ['--host', host, ...args]);
  const watching = watch('docker', ['--host', host]);
  return {
    name: `the Docker engine at ${host}`,
    env: {},
    build: (image, context) => void docker('build', '--quiet', '--tag', image, context),
    seen: watching.seen,
    async close() {
      watching.end();
    },
  };
}

/** Starts podman with its own storage, settings and Docker-compatible socket in the folder. */
async function podmanEngine(dir: string): Promise<Engine> {
  const settings = join(dir, 'containers.conf');
  writeFileSync(settings, podmanSettings());
  const env = {
    ...process.env,
    CONTAINERS_CONF: settings,
    // Health checks would need timers of systemd, which may be missing; nothing here waits for one.
    DISABLE_HC_SYSTEMD: 'true',
  };
  const place = ['--root', join(dir, 'storage'), '--runroot', join(dir, 'run')];
  for (const folder of ['storage', 'run']) mkdirSync(join(dir, folder));
  const podman = (...args: string[]) => run('podman', [...place, ...args], env);

  const socket = join(dir, 'podman.sock');
  // podman logs every command that testcontainers tries in a container that lacks it, so its output goes to a file.
  const log = join(dir, 'podman.log');
  const fd = openSync(log, 'w');
  const service = spawn('podman', [...place, 'system', 'service', '--time=0', `unix://${socket}`], {
    env,
    stdio: ['ignore', fd, fd],
  });
  closeSync(fd);
  const ended = new Promise<void>((resolve) => service.once('exit', () => resolve()));
  await untilItAnswers(socket, service, log);
  const watching = watch('podman', place, env);
  return {
    name: podman('--version').trim(),
    env: {
      DOCKER_HOST: `unix://${socket}`,
      // The image of Ryuk would have to be fetched; remains are removed with the folder.
      TESTCONTAINERS_RYUK_DISABLED: 'true',
    },
    build: (image, context) => void podman('build', '--quiet', '--tag', image, context),
    seen: watching.seen,
    async close() {
      watching.end();
      podman('rm', '--all', '--force', '--time', '0', '--volumes');
      podman('rmi', '--all', '--force');
      service.kill('SIGTERM');
      await ended;
      // Remaining mounts would prevent the removal of the folder.
      run('podman', [...place, 'system', 'reset', '--force'], env);
    },
  };
}

/**
 * Returns podman's settings. Without systemd, the only cgroup manager is the file system. A machine that mounts
 * both versions of cgroups needs runc, because crun refuses it. Without CAP_SYS_RESOURCE no limit can exceed this
 * process's own.
 */
function podmanSettings(): string {
  const limits = readFileSync('/proc/self/limits', 'utf8');
  const hard = (name: string) => {
    const value = new RegExp(`^${name}\\s+\\S+\\s+(\\S+)`, 'm').exec(limits)?.[1];
    return Math.min(LIMIT, value === 'unlimited' ? LIMIT : Number(value ?? LIMIT));
  };
  const files = hard('Max open files');
  const processes = hard('Max processes');
  const hybrid = existsSync('/sys/fs/cgroup/unified');
  if (hybrid && !findOnPath('runc', `${process.env.PATH}:/usr/sbin`))
    throw new Error('this machine has both versions of cgroups: runc is needed (Debian: apt install runc)');
  return [
    '[containers]',
    `default_ulimits = ["nofile=${files}:${files}", "nproc=${processes}:${processes}"]`,
    '[engine]',
    'events_logger = "file"',
    existsSync('/run/systemd/system') ? '' : 'cgroup_manager = "cgroupfs"',
    hybrid ? 'runtime = "runc"' : '',
    '',
  ].join('\n');
}

async function untilItAnswers(
  socketPath: string,
  service: { exitCode: number | null },
  log: string,
): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    if (service.exitCode !== null) throw new Error(`podman's service ended:\n${readFileSync(log, 'utf8')}`);
    try {
      await httpGet({ socketPath, path: '/_ping', signal: AbortSignal.timeout(2_000) });
      return;
    } catch (error) {
      if (attempt >= 100) throw error;
      await delay(100);
    }
  }
}

/** Records the images of running containers until it is ended. */
function watch(command: string, args: string[], env: NodeJS.ProcessEnv = process.env) {
  const seen = new Set<string>();
  const timer = setInterval(() => {
    execFile(command, [...args, 'ps', '--format', '{{.Image}}'], { env }, (error, stdout) => {
      if (!error) for (const image of stdout.split('\n').filter(Boolean)) seen.add(image);
    });
  }, 500);
  return { seen: () => [...seen].sort(), end: () => clearInterval(timer) };
}

function run(command: string, args: string[], env: NodeJS.ProcessEnv = process.env): string {
  return execFileSync(command, args, { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
}
