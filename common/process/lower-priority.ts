import { readdirSync } from 'node:fs';
import { setPriority } from 'node:os';

/** Sets the nice value of a process that was just started, and of all that it starts. */
export function lowerPriority(pid: number, nice: number): void {
  lower(pid, nice);
  // Linux keeps a nice value for each thread, which new threads inherit. If this process was delayed, the child may
  // have threads already.
  for (const thread of threadsOf(pid)) lower(thread, nice);
}

function lower(thread: number, nice: number): void {
  try {
    setPriority(thread, nice);
  } catch {
    // The thread has ended, which does not affect the others. Or it already has a higher value, which this process
    // may not lower.
  }
}

function threadsOf(pid: number): number[] {
  if (process.platform !== 'linux') return [];
  try {
    return readdirSync(`/proc/${pid}/task`)
      .map(Number)
      .filter((thread) => thread !== pid);
  } catch {
    // The process has ended, and its exit reports that.
    return [];
  }
}
