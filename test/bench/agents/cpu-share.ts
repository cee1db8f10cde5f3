import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describeError } from '@semblance/common/errors';

/** Period of a CPU limit, in microseconds, as kubelet sets it for a pod. */
const PERIOD_US = 100_000;

/** A group of processes whose CPU time the kernel can limit, like that of a pod with a limit. */
export interface CpuGroup {
  /** Path of a file: a process that writes its id there joins the group, with all processes that it starts later. */
  readonly procs: string;
  /** @param cores number of cores, such as 0.5; undefined for no limit */
  limit(cores: number | undefined): void;
  /** Returns the number of periods in which the group had used up its share and had to wait. */
  throttled(): number;
  /** Removes the group, whose processes must have ended. */
  remove(): void;
}

/** Creates groups, or tells why that is impossible here. */
export type CpuGroups =
  | { readonly available: true; make(name: string): CpuGroup }
  | { readonly available: false; readonly why: string };

/**
 * Finds the cpu controller of cgroups, version 2 or 1, in which groups can be created. It tries that with a group
 * of its own, because neither the controller's presence nor our rights prove that it works.
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
