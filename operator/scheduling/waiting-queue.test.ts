import fc from 'fast-check';
import { expect, it } from 'vitest';
import { byAge, createWaitingQueue, type WaitingJob } from './waiting-queue.ts';

const jobs = fc.record({
  uid: fc.integer({ min: 0, max: 15 }).map(String),
  priority: fc.integer({ min: -1, max: 1 }),
  account: fc.constantFrom('', 'a', 'b'),
  capability: fc.constantFrom('photo', 'video'),
  age: fc.integer({ min: 0, max: 5 }),
});

/** Returns the content of the queue in its order. */
function contents(queue: ReturnType<typeof createWaitingQueue>): string[] {
  return queue
    .levels()
    .flatMap(({ priority, accounts }) =>
      [...accounts]
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .flatMap(([account, own]) =>
          [...own]
            .sort(([a], [b]) => (a < b ? -1 : 1))
            .flatMap(([capability, line]) =>
              line.map(({ uid }) => `${priority}/${account}/${capability}/${uid}`),
            ),
        ),
    );
}

it('is in order whatever came, changed and went', () => {
  const step = fc.oneof(
    jobs.map((job) => ({ put: job }) as const),
    fc.integer({ min: 0, max: 15 }).map((uid) => ({ remove: String(uid) }) as const),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const queue = createWaitingQueue();
      const model = new Map<string, WaitingJob>();
      for (const each of steps) {
        if ('put' in each) {
          const { age, ...rest } = each.put;
          const job = { ...rest, name: `job-${rest.uid}`, createdAt: `2026-01-01T00:00:0${age}Z` };
          queue.put(job);
          model.set(job.uid, job);
        } else {
          queue.remove(each.remove);
          model.delete(each.remove);
        }
      }
      const order = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);
      const expected = [...model.values()].sort(
        (a, b) =>
          b.priority - a.priority ||
          order(a.account ?? '', b.account ?? '') ||
          order(a.capability, b.capability) ||
          byAge(a, b),
      );
      expect(contents(queue)).toEqual(
        expected.map(
          ({ priority, account, capability, uid }) => `${priority}/${account}/${capability}/${uid}`,
        ),
      );
      expect(queue.size).toBe(model.size);
      for (const capability of ['photo', 'video']) {
        const count = expected.filter((job) => job.capability === capability).length;
        expect(queue.counts.get(capability) ?? 0).toBe(count);
      }
      for (const account of ['', 'a', 'b']) {
        expect(queue.has(account)).toBe(expected.some((job) => job.account === account));
      }
    }),
  );
});
