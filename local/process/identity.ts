import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

/**
 * A process, identified by its pid and its start, so that a reused pid is not mistaken for it. `since` is opaque:
 * equal for the same process, different for any other one with that pid.
 */
export type ProcessIdentity = { pid: number; since: string };

/** Identifies the process that has this pid now; undefined when there is none, or only a zombie. */
export function identify(pid: number): ProcessIdentity | undefined {
  if (!Number.isSafeInteger(pid) || pid <= 0) return undefined;
  const since = process.platform === 'linux' ? sinceFromProc(pid) : sinceFromPs(pid);
  return since === undefined ? undefined : { pid, since };
}

/** Returns whether exactly this process still runs. */
export function isAlive(identity: ProcessIdentity): boolean {
  return identify(identity.pid)?.since === identity.since;
}

/** Returns the command line of a process; empty when it is unknown. */
export function commandLine(pid: number): string {
  try {
    return process.platform === 'linux'
      ? readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()
      : execFileSync('ps', ['-o', 'args=', '-p', String(pid)], { encoding: 'utf8' }).trim();
  } catch {
    return '';
  }
}

let bootId: string | undefined;

function sinceFromProc(pid: number): string | undefined {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return undefined;
  }
  // The name in parentheses may contain spaces and parentheses, so fields are counted after the last parenthesis.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state, startTime] = [fields[0], fields[19]];
  if (startTime === undefined || state === 'X' || (state === 'Z' && !hasThreads(pid))) return undefined;
  // Start times count from boot, so the boot is part of the identity.
  bootId ??= readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  return `${bootId}/${startTime}`;
}

/**
 * Returns whether threads remain beside the first one. The first thread of a killed process may become a zombie before
 * the others end, which still hold its ports and files.
 */
function hasThreads(pid: number): boolean {
  try {
    return readdirSync(`/proc/${pid}/task`).length > 1;
  } catch {
    return false;
  }
}

function sinceFromPs(pid: number): string | undefined {
  try {
    const [state, ...start] = execFileSync('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], {
      encoding: 'utf8',
    })
      .trim()
      .split(/\s+/);
    return !state || state.startsWith('Z') ? undefined : start.join(' ');
  } catch {
    return undefined;
  }
}
