import { describe, expect, it } from 'vitest';
import { explain } from './explain.ts';
import { createFairShare, type FairShare } from './fair-share.ts';
import { place } from './schedule.ts';
import type { ScheduledAgent } from './scheduled-agent.ts';
import { createWaitingQueue, type WaitingJob } from './waiting-queue.ts';

const START = Date.parse('2026-01-01T00:00:00Z');

function jobsOf(account: string, count: number, more: Partial<WaitingJob> = {}): WaitingJob[] {
  return Array.from({ length: count }, (_, i) => {
    const name = `${account}-${String(i).padStart(5, '0')}`;
    const createdAt = '2026-01-01T00:00:00Z';
    return { uid: name, name, account, capability: 'photo', priority: 0, createdAt, ...more };
  });
}

/** Simulates agents with their own clock. Every render takes `secondsOf` seconds. */
function simulate(options: {
  slots: number;
  jobs: readonly WaitingJob[];
  shares?: FairShare;
  secondsOf?: (job: WaitingJob) => number;
  costs?: ReadonlyMap<string, number>;
}) {
  const {
    slots,
    shares = createFairShare(),
    secondsOf = () => 10,
    costs = new Map([['photo', 1]]),
  } = options;
  const queue = createWaitingQueue();
  const running: { job: WaitingJob; slots: number; until: number }[] = [];
  const order: string[] = [];
  let now = START;
  const add = (jobs: readonly WaitingJob[]) => {
    for (const job of jobs) {
      if (!queue.has(job.account ?? '')) shares.joined(job.account ?? '', now);
      queue.put(job);
    }
  };
  const agents = (): ScheduledAgent[] => {
    const used = running.reduce((sum, each) => sum + each.slots, 0);
    const readiness = { ready: true, reason: 'Ready', message: '' } as const;
    return [{ name: 'a', incarnation: 'i', slots, used, costs, readiness }];
  };
  add(options.jobs);
  return {
    add,
    order,
    queue,
    shares,
    /** Returns the accounts of the jobs in the order of placement. */
    accounts: () => order.map((name) => name.replace(/-\d+$/, '')),
    waiting: () => explain({ queue, agents: agents(), shares, now }),
    place() {
      for (const { job, slots: taken } of place({ queue, agents: agents(), shares, now })) {
        order.push(job.name);
        running.push({ job, slots: taken, until: now + secondsOf(job) * 1_000 });
      }
    },
    /** Advances to the end of the next render. */
    step() {
      running.sort((a, b) => a.until - b.until);
      const [next] = running.splice(0, 1);
      if (!next) return;
      now = next.until;
      shares.ended(next.job.uid, now, true);
      this.place();
    },
  };
}

describe('accounts share the slots', () => {
  it.each([1, 4])('one job is not behind ten thousand of another account, with %d slots', (slots) => {
    const cluster = simulate({ slots, jobs: jobsOf('many', 10_000) });
    cluster.place();
    for (let i = 0; i < 30; i++) cluster.step();
    cluster.add(jobsOf('one', 1, { createdAt: '2026-01-01T00:10:00Z' }));
    expect(cluster.waiting().get('one-00000')?.position).toBe(1);
    const before = cluster.order.length;
    cluster.step();
    expect(cluster.order[before]).toBe('one-00000');
  });

  it('by turns when both have many, from the first on, and place by place as told', () => {
    const cluster = simulate({
      slots: 1,
      jobs: [...jobsOf('a', 500), ...jobsOf('b', 500), ...jobsOf('c', 3)],
    });
    const told = [...cluster.waiting().keys()].slice(0, 300);
    cluster.place();
    for (let i = 0; i < 299; i++) cluster.step();
    expect(cluster.order).toEqual(told);
    expect(cluster.accounts().slice(0, 6)).toEqual(['a', 'b', 'c', 'a', 'b', 'c']);
    expect(cluster.accounts().filter((account) => account === 'c')).toHaveLength(3);
  });

  it('in slots and seconds, not in jobs', () => {
    const costs = new Map([
      ['photo', 1],
      ['video', 2],
    ]);
    const cluster = simulate({
      slots: 2,
      costs,
      secondsOf: ({ capability }) => (capability === 'video' ? 30 : 10),
      jobs: [...jobsOf('photos', 900), ...jobsOf('videos', 100, { capability: 'video' })],
    });
    cluster.place();
    for (let i = 0; i < 300; i++) cluster.step();
    const count = (of: string) => cluster.accounts().filter((account) => account === of).length;
    // A video takes 60 slot-seconds and a photo 10.
    expect(count('photos') / count('videos')).toBeGreaterThan(5);
    expect(count('photos') / count('videos')).toBeLessThan(7);
  });

  it('by their weights', () => {
    const shares = createFairShare(new Map([['heavy', 3]]));
    const cluster = simulate({ slots: 1, shares, jobs: [...jobsOf('heavy', 300), ...jobsOf('light', 300)] });
    cluster.place();
    for (let i = 0; i < 99; i++) cluster.step();
    expect(cluster.accounts().filter((account) => account === 'heavy')).toHaveLength(75);
  });

  it('and what one holds already counts', () => {
    const shares = createFairShare();
    for (const uid of ['x', 'y']) {
      shares.started(uid, { account: 'a', capability: 'photo', slots: 1, since: START - 5_000 });
    }
    const cluster = simulate({ slots: 2, shares, jobs: [...jobsOf('a', 2), ...jobsOf('b', 2)] });
    cluster.place();
    expect(cluster.accounts()).toEqual(['b', 'b']);
  });

  it('and what one used before this process began counts', () => {
    const shares = createFairShare();
    shares.past({ account: 'a', capability: 'photo', slots: 1, since: START - 60_000 }, START - 40_000);
    const cluster = simulate({ slots: 1, shares, jobs: [...jobsOf('a', 5), ...jobsOf('b', 5)] });
    cluster.place();
    for (let i = 0; i < 4; i++) cluster.step();
    expect(cluster.accounts()).toEqual(['b', 'b', 'a', 'b', 'a']);
  });

  it('whoever was idle has nothing saved up', () => {
    const cluster = simulate({ slots: 1, jobs: [...jobsOf('a', 1_000), ...jobsOf('b', 1)] });
    cluster.place();
    for (let i = 0; i < 200; i++) cluster.step();
    cluster.add(jobsOf('b', 100, { createdAt: '2026-01-01T01:00:00Z' }));
    const before = cluster.order.length;
    for (let i = 0; i < 40; i++) cluster.step();
    const since = cluster.accounts().slice(before);
    expect(since.filter((account) => account === 'b').length).toBeLessThanOrEqual(21);
    expect(since.filter((account) => account === 'b').length).toBeGreaterThanOrEqual(20);
  });

  it('nor does an account that is served cost one that cannot be', () => {
    const cluster = simulate({
      slots: 1,
      jobs: [...jobsOf('stuck', 50, { capability: 'avatar' }), ...jobsOf('a', 200), ...jobsOf('b', 200)],
    });
    cluster.place();
    for (let i = 0; i < 99; i++) cluster.step();
    expect(cluster.accounts().filter((account) => account === 'a')).toHaveLength(50);
    expect(cluster.waiting().get('stuck-00000')).toMatchObject({
      reason: 'NoAgentForCapability',
      position: 1,
    });
  });
});

describe('priority', () => {
  it('goes before fairness', () => {
    const urgent = jobsOf('a', 3, { priority: 5 });
    const cluster = simulate({ slots: 1, jobs: [...jobsOf('b', 3), ...urgent] });
    expect([...cluster.waiting().keys()].slice(0, 3)).toEqual(urgent.map(({ uid }) => uid));
    cluster.place();
    for (let i = 0; i < 3; i++) cluster.step();
    expect(cluster.accounts()).toEqual(['a', 'a', 'a', 'b']);
  });
});

it('a job that is overtaken by fair share says so', () => {
  const cluster = simulate({
    slots: 1,
    jobs: [...jobsOf('a', 3), ...jobsOf('b', 1, { createdAt: '2026-01-01T00:00:05Z' })],
  });
  cluster.place();
  const { reason, message } = cluster.waiting().get('a-00001') ?? {};
  expect(reason).toBe('AccountShare');
  expect(message).toBe(
    '2nd of 3 waiting; fair share: 1 job of its account runs, and younger ones of others come first; 1 of 1 slot on 1 agent is busy.',
  );
  expect(cluster.waiting().get('b-00000')).toMatchObject({ reason: 'SlotsBusy', position: 1 });
});

it('keeps nothing of accounts that are even with the others', () => {
  const shares = createFairShare();
  for (let i = 0; i < 5_000; i++) {
    const account = `a${i}`;
    shares.joined(account, START + i);
    shares.served(account, START + i);
    shares.started(`u${i}`, { account, capability: 'photo', slots: 1, since: START + i });
    shares.ended(`u${i}`, START + i, true);
  }
  expect(shares.size).toBeLessThanOrEqual(2_001);
});
