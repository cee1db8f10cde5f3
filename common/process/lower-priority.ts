import { readdirSync } from 'node:fs';
import { setPriority } from 'node:os';

/** Gives a process that was just started, and whatever it starts, a nice value. */
export function lowerPriority(pid: number, nice: number): void {
  lower(pid, nice);
  // Linux has a nice value for each thread, which those take on that it starts. Where we were held up, some are there.
  for (const thread of threadsOf(pid)) lower(thread, nice);
}

function lower(thread: number, nice: number): void {
  try {
    setPriority(thread, nice);
  } catch {
    // It has ended, which is no matter to the others; or has a higher value already, which is not for us to take back.
  }
}

function threadsOf(pid: number): number[] {
  if (process.platform !== 'linux') return [];
  try {
    return readdirSync(`/proc/${pid}/task`)
      .map(Number)
      .filter((thread) => thread !== pid);
  } catch {
    // Gone already: its exit says so.
    return [];
  }
}
