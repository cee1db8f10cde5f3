import { readFileSync } from 'node:fs';
import { processTree } from '@semblance/testkit/stack/processes';

/** Clock ticks per second in which Linux reports times, on every architecture. */
const TICKS = 100;

/** Returns the CPU seconds that a process and its descendants have used; undefined except on Linux. */
export function cpuSecondsOf(pid: number): number | undefined {
  try {
    let ticks = 0;
    for (const { pid: member } of processTree(pid)) {
      const fields = fieldsOf(member);
      ticks += Number(fields[11]) + Number(fields[12]);
    }
    return ticks / TICKS;
  } catch {
    return undefined;
  }
}

/** Returns the resident memory of one process in bytes; undefined except on Linux. */
export function residentBytesOf(pid: number): number | undefined {
  try {
    const kib = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    return kib === undefined ? undefined : Number(kib) * 1024;
  } catch {
    return undefined;
  }
}

/** Returns the fields of /proc/<pid>/stat after the command's name, from the state on. */
function fieldsOf(pid: number): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}
