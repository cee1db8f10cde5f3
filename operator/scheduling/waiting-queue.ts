/** A job that competes for a slot. */
export interface WaitingJob {
  readonly uid: string;
  readonly name: string;
  readonly capability: string;
  /** What it needs of an agent; see `needOf`. Default: its capability. */
  readonly need?: string | undefined;
  readonly priority: number;
  /** Account of the job; '' for all that nobody is billed for. Default ''. */
  readonly account?: string;
  /** RFC 3339. The API keeps whole seconds, so names break ties; names given by the service sort by time. */
  readonly createdAt: string;
  /** PriorityClass of the job if it cannot be read: it counts as priority 0. */
  readonly unknownClass?: string | undefined;
  /** Agent of the last attempt, if interruptions have ended any: another one is preferred. */
  readonly interruptedOn?: string | undefined;
}

/** Compares by age, older first, then by name. */
export function byAge(a: WaitingJob, b: WaitingJob): number {
  return compare(a.createdAt, b.createdAt) || compare(a.name, b.name) || compare(a.uid, b.uid);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The waiting jobs of one account at one priority, by what they need, oldest first. */
export type AccountQueue = ReadonlyMap<string, readonly WaitingJob[]>;

export interface Level {
  readonly priority: number;
  readonly accounts: ReadonlyMap<string, AccountQueue>;
}

/**
 * The waiting jobs, kept in order. Adding or removing one costs O(log n) comparisons, and the whole is never
 * sorted.
 */
export interface WaitingQueue {
  put(job: WaitingJob): void;
  remove(uid: string): void;
  /** Returns whether any job of the account waits. */
  has(account: string): boolean;
  /** Returns the levels, highest priority first. */
  levels(): readonly Level[];
  /** Number of waiting jobs, by what they need. */
  readonly counts: ReadonlyMap<string, number>;
  readonly size: number;
}

export function createWaitingQueue(): WaitingQueue {
  const known = new Map<string, WaitingJob>();
  const levels: { priority: number; accounts: Map<string, Map<string, WaitingJob[]>> }[] = [];
  const counts = new Map<string, number>();
  const accounts = new Map<string, number>();

  const queue: WaitingQueue = {
    put(job) {
      const before = known.get(job.uid);
      if (before && isSame(before, job)) return;
      if (before) queue.remove(job.uid);
      known.set(job.uid, job);
      add(counts, neededBy(job), 1);
      add(accounts, job.account ?? '', 1);
      const at = lowerBound(levels, (level) => job.priority - level.priority);
      const level = levels[at]?.priority === job.priority ? levels[at] : undefined;
      const { accounts: of } = level ?? { accounts: new Map<string, Map<string, WaitingJob[]>>() };
      if (!level) levels.splice(at, 0, { priority: job.priority, accounts: of });
      const own = of.get(job.account ?? '') ?? new Map<string, WaitingJob[]>();
      of.set(job.account ?? '', own);
      const need = neededBy(job);
      const line = own.get(need) ?? [];
      own.set(need, line);
      const last = line.at(-1);
      // A new job is nearly always the youngest.
      if (!last || byAge(last, job) < 0) line.push(job);
      else
        line.splice(
          lowerBound(line, (other) => byAge(other, job)),
          0,
          job,
        );
    },
    remove(uid) {
      const job = known.get(uid);
      if (!job) return;
      known.delete(uid);
      const { account = '', priority } = job;
      const need = neededBy(job);
      add(counts, need, -1);
      add(accounts, account, -1);
      const at = lowerBound(levels, (level) => priority - level.priority);
      const own = levels[at]?.accounts.get(account);
      const line = own?.get(need);
      if (!own || !line) return;
      const place = lowerBound(line, (other) => byAge(other, job));
      if (place === 0) line.shift();
      else line.splice(place, 1);
      if (line.length > 0) return;
      own.delete(need);
      if (own.size > 0) return;
      levels[at]?.accounts.delete(account);
      if (levels[at]?.accounts.size === 0) levels.splice(at, 1);
    },
    has: (account) => accounts.has(account),
    levels: () => levels,
    counts,
    get size() {
      return known.size;
    },
  };
  return queue;
}

/** Returns what a job needs of an agent. */
export function neededBy({ capability, need = capability }: WaitingJob): string {
  return need;
}

function isSame(a: WaitingJob, b: WaitingJob): boolean {
  return (
    a.priority === b.priority &&
    a.capability === b.capability &&
    neededBy(a) === neededBy(b) &&
    (a.account ?? '') === (b.account ?? '') &&
    a.unknownClass === b.unknownClass &&
    a.interruptedOn === b.interruptedOn &&
    byAge(a, b) === 0
  );
}

function add(counts: Map<string, number>, key: string, change: number): void {
  const count = (counts.get(key) ?? 0) + change;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
}

/** Returns the index of the first item for which `compare` is not negative. */
function lowerBound<T>(items: readonly T[], compare: (item: T) => number): number {
  let low = 0;
  for (let high = items.length; low < high; ) {
    const middle = (low + high) >> 1;
    if (compare(items[middle] as T) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
