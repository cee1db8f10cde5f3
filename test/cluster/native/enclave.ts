import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { run } from '@semblance/common/process/run';
import { identify, isAlive, type ProcessIdentity } from '@semblance/local/process/identity';

/**
 * Folders outside the cluster's own folder into which a node writes; inside the enclave they are folders of the
 * cluster.
 */
const PRIVATE = [
  '/run/netns',
  '/run/containerd',
  '/var/lib/cni',
  '/var/lib/kubelet',
  '/var/log/containers',
  '/var/log/pods',
];

/**
 * Processes in their own namespaces. In the PID namespace all of them, containers included, end with the first one.
 * In the mount namespace no mount outlives them. The network namespace has one link to this machine.
 */
export type Enclave = {
  /** Address of the node, reachable from this machine. */
  readonly address: string;
  /** Starts a program inside, in the background; its output goes to `<name>.log`. */
  start(name: string, command: string, args: readonly string[], env?: NodeJS.ProcessEnv): Promise<Child>;
};
export type Child = { exited(): boolean };

/** The outermost process, and the folders that were created as mount points. */
type Noted = ProcessIdentity & { made: string[] };

const ENTER = ['--mount', '--net', '--pid'];

/** Returns the address of this machine on its link to an enclave. */
export const hostAddress = (number: number) => `10.99.${number}.1`;

/** @param number 0 to 255; distinguishes the enclaves of this machine by the names of links and the addresses */
export async function openEnclave(dir: string, number: number, init: string): Promise<Enclave> {
  const log = openSync(join(dir, 'enclave.log'), 'a');
  // When unshare is killed, it kills the first process inside, and the kernel then kills all others.
  const outer = spawn(
    'unshare',
    ['--net', '--mount', '--propagation=private', '--pid', '--fork', '--kill-child', '--mount-proc', init],
    { detached: true, stdio: ['ignore', log, log] },
  );
  closeSync(log);
  const failed = new Promise<never>((_, reject) => {
    outer.once('error', reject);
    outer.once('exit', (code) =>
      reject(new Error(`unshare ended with status ${code}: see ${dir}/enclave.log`)),
    );
  });
  failed.catch(() => {});
  outer.unref();
  const pid = outer.pid;
  if (pid === undefined) return failed;
  const made: string[] = [];
  for (const path of PRIVATE) {
    const first = await mkdir(path, { recursive: true });
    if (first !== undefined) made.push(path);
  }
  await writeFile(
    join(dir, 'enclave.json'),
    JSON.stringify({ ...identify(pid), made } satisfies Partial<Noted>),
  );
  const first = await Promise.race([childOf(pid), failed]);
  const enter = ['--target', String(first), ...ENTER, '--'];
  const address = `10.99.${number}.2`;
  const [host, peer] = [`semb${number}`, `semb${number}p`];
  await run('ip', ['link', 'add', host, 'type', 'veth', 'peer', 'name', peer]);
  await run('ip', ['link', 'set', peer, 'netns', String(first), 'name', 'eth0']);
  await run('ip', ['address', 'add', `${hostAddress(number)}/24`, 'dev', host]);
  await run('ip', ['link', 'set', host, 'up']);
  const inside = [
    'set -e',
    'ip link set lo up',
    `ip address add ${address}/24 dev eth0`,
    'ip link set eth0 up',
    `ip route add default via ${hostAddress(number)}`,
    'echo 1 > /proc/sys/net/ipv4/ip_forward',
    ...PRIVATE.map((path) => `mkdir -p "$0${path}" && mount --bind "$0${path}" ${path}`),
    // Running containers must see the volumes that the kubelet mounts later.
    'mount --make-rshared /',
  ];
  await run('nsenter', [...enter, 'sh', '-c', inside.join('\n'), join(dir, 'private')]);
  return {
    address,
    async start(name, command, args, env = process.env) {
      const file = openSync(join(dir, `${name}.log`), 'a');
      const child = spawn('nsenter', [...enter, command, ...args], {
        detached: true,
        env,
        cwd: dir,
        stdio: ['ignore', file, file],
      });
      closeSync(file);
      child.on('error', () => {});
      child.unref();
      return {
        exited: () => child.exitCode !== null || child.signalCode !== null || child.pid === undefined,
      };
    },
  };
}

/** Ends the enclave that this folder records, even when its creator died long ago. */
export async function closeEnclave(dir: string): Promise<void> {
  const text = await readFile(join(dir, 'enclave.json'), 'utf8').catch(() => '');
  if (!text) return;
  const { made, ...outer } = JSON.parse(text) as Noted;
  if (isAlive(outer)) await endProcesses(outer, dir);
  // Other processes may use these folders by now.
  for (const path of made) await rmdir(path).catch(() => {});
}

async function endProcesses(outer: ProcessIdentity, dir: string): Promise<void> {
  // When the first process dies, the kernel kills all others and waits for them.
  const first = await childOf(outer.pid).catch(() => undefined);
  const identity = first === undefined ? undefined : identify(first);
  process.kill(first ?? outer.pid, 'SIGKILL');
  const until = Date.now() + 30_000;
  while ((identity && isAlive(identity)) || isAlive(outer)) {
    if (Date.now() > until) throw new Error(`process ${first ?? outer.pid} of ${dir} does not end`);
    await delay(50);
  }
}

async function childOf(pid: number): Promise<number> {
  for (let attempt = 0; attempt < 200; attempt++) {
    const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8');
    const first = Number(children.trim().split(' ')[0]);
    if (first > 0) return first;
    await delay(10);
  }
  throw new Error(`process ${pid} started nothing`);
}

/** Removes the control groups of this name, in every hierarchy, with all groups below. No process may run in them. */
export async function removeControlGroups(name: string): Promise<void> {
  const root = '/sys/fs/cgroup';
  const hierarchies = (await readdir(root, { withFileTypes: true }).catch(() => []))
    .filter((entry) => entry.isDirectory())
    .map((entry) => join(root, entry.name));
  for (const hierarchy of [root, ...hierarchies]) await removeGroup(join(hierarchy, name));
}

async function removeGroup(path: string): Promise<void> {
  const entries = await readdir(path, { withFileTypes: true }).catch(() => []);
  for (const entry of entries) if (entry.isDirectory()) await removeGroup(join(path, entry.name));
  // The kernel counts a process for a moment after its end.
  for (let attempt = 0; attempt < 50; attempt++) {
    try {
      return await rmdir(path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EBUSY') return;
      await delay(20);
    }
  }
}

/** Creates a control group for this cluster in every hierarchy; the kubelet creates its own groups below. */
export async function makeControlGroups(name: string): Promise<void> {
  const root = '/sys/fs/cgroup';
  const entries = await readdir(root, { withFileTypes: true });
  if (entries.some((item) => item.name === 'cgroup.controllers')) {
    await mkdir(join(root, name), { recursive: true });
    await writeFile(join(root, name, 'cgroup.subtree_control'), '+cpu +memory +pids +cpuset +io').catch(
      () => {},
    );
    return;
  }
  for (const entry of entries) {
    if (!entry.isDirectory()) continue;
    const group = join(root, entry.name, name);
    await mkdir(group, { recursive: true }).catch(() => {});
    // In cgroups version 1 a group has no processors and no memory nodes until it is given some.
    for (const file of ['cpuset.mems', 'cpuset.cpus']) {
      const above = await readFile(join(root, entry.name, file), 'utf8').catch(() => '');
      if (above) await writeFile(join(group, file), above.trim());
    }
  }
}
