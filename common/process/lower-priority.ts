import { setPriority } from 'node:os';

/** Gives a process that was just started, and whatever it starts, a nice value. */
export function lowerPriority(pid: number, nice: number): void {
  try {
    setPriority(pid, nice);
  } catch {
    // Gone already: its exit says so.
  }
}
