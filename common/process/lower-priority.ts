import { readdirSync } from 'node:fs';
import { setPriority } from 'node:os';

/** Gives a process that was just started, and whatever it starts, a nice value. */
export function lowerPriority(pid: number, nice: number): void {
  try {
    setPriority(pid, nice);
    // Linux has a nice value for each thread, which those take on that it starts. Where we were held up, some are there.
    for (const thread of threadsOf(pid)) setPriority(thread, nice);
  } catch {
    // Gone already: its exit says so.
  }
}

function threadsOf(pid: number): number[] {
  if (process.platform !== 'linux') return [];
  return readdirSync(`/proc/${pid}/task`)
    .map(Number)
    .filter((thread) => thread !== pid);
}
