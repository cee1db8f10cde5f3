import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describeError } from '@semblance/common/errors';

/** As kubelet sets it for a pod's limit. */
const PERIOD_US = 100_000;

/** A group of processes whose CPU time the kernel can limit, as that of a pod with a limit. */
export interface CpuGroup {
  /** A file: a process that writes its own id there is in the group, with all it starts from then on. */
  readonly procs: string;
  /** @param cores such as 0.5; undefined: as much as there is */
  limit(cores: number | undefined): void;
  /** Periods in which the group had used up its share and waited for the next, so far. */
  throttled(): number;
  /** Its processes must have ended. */
  remove(): void;
}

/** Makes groups; `why` there are none here otherwise. */
export type CpuGroups =
  | { readonly available: true; make(name: string): CpuGroup }
  | { readonly available: false; readonly why: string };

/**
 * What this machine lets us limit: the cpu controller of cgroups, version 2 or 1, where we may make groups. Tries it out
 * on a group of its own, since neither its presence nor our rights say that it works.
 */
export function findCpuGroups(root = '/sys/fs/cgroup'): CpuGroups {
  const kind = layoutOf(root);
  if (!kind) return { available: false, why: `there is no cpu controller of cgroups in ${root}` };
  const make = (name: string) => createGroup(join(kind.folder, name), kind.version);
  try {
    const trial = make(`semblance-bench-trial-${process.pid}`);
    try {
      trial.limit(0.5);
      trial.throttled();
    } finally {
      trial.remove();
    }
    return { available: true, make };
  } catch (error) {
    return {
      available: false,
      why: `no group with a share of CPU can be made in ${kind.folder}: ${describeError(error)}`,
    };
  }
}

function layoutOf(root: string): { folder: string; version: 1 | 2 } | undefined {
  const controllers = join(root, 'cgroup.controllers');
  if (existsSync(controllers)) {
    const cpu = readFileSync(controllers, 'utf8').trim().split(/\s+/).includes('cpu');
    return cpu ? { folder: root, version: 2 } : undefined;
  }
  const folder = ['cpu', 'cpu,cpuacct'].map((name) => join(root, name)).find((path) => existsSync(path));
  return folder === undefined ? undefined : { folder, version: 1 };
}

function createGroup(folder: string, version: 1 | 2): CpuGroup {
  mkdirSync(folder);
  const write = (file: string, text: string) => writeFileSync(join(folder, file), text);
  return {
    procs: join(folder, 'cgroup.procs'),
    limit(cores) {
      const quota = cores === undefined ? undefined : String(Math.round(cores * PERIOD_US));
      if (version === 2) write('cpu.max', `${quota ?? 'max'} ${PERIOD_US}`);
      else {
        write('cpu.cfs_period_us', String(PERIOD_US));
        write('cpu.cfs_quota_us', quota ?? '-1');
      }
    },
    throttled() {
      const stat = readFileSync(join(folder, 'cpu.stat'), 'utf8');
      const count = /^nr_throttled (\d+)$/m.exec(stat)?.[1];
      if (count === undefined) throw new Error(`${folder} does not say how often it was held back`);
      return Number(count);
    },
    remove: () => rmdirSync(folder),
  };
}
