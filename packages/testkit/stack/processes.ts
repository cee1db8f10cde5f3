import { readdirSync, readFileSync } from 'node:fs';
import { identify, isAlive, type ProcessIdentity } from '@semblance/local/process/identity';

/**
 * Returns `root` and every process below it. They are identities, so a later process with the same pid is not
 * confused with one of them. Linux only, like the tests that use it.
 */
export function processTree(root: number): ProcessIdentity[] {
  const children = new Map<number, number[]>();
  for (const pid of allPids()) {
    const parent = parentOf(pid);
    if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), pid]);
  }
  const found: number[] = [];
  for (const queue = [root]; queue.length; ) {
    const pid = queue.shift() as number;
    found.push(pid);
    queue.push(...(children.get(pid) ?? []));
  }
  return found.map(identify).filter((identity) => identity !== undefined);
}

/** Returns the processes whose command line or environment mentions `text`, such as the path of a state folder. */
export function processesMentioning(text: string): { pid: number; command: string }[] {
  return allPids().flatMap((pid) => {
    if (pid === process.pid) return [];
    const command = read(`/proc/${pid}/cmdline`);
    const mentions = command.includes(text) || read(`/proc/${pid}/environ`).includes(text);
    return mentions && identify(pid) ? [{ pid, command: command.replaceAll('\0', ' ').trim() }] : [];
  });
}

/** Returns the processes that still run. */
export function stillAlive(identities: readonly ProcessIdentity[]): ProcessIdentity[] {
  return identities.filter(isAlive);
}

function allPids(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

function parentOf(pid: number): number | undefined {
  const stat = read(`/proc/${pid}/stat`);
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return stat ? Number(fields[1]) : undefined;
}

/** Returns '' when the process is gone or may not be read. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
