import { setTimeout as delay } from 'node:timers/promises';
import { silentLogger } from '@semblance/common/logging';
import { untilTrue } from '@semblance/testkit/control-plane/control-plane';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { Task } from './debts.ts';
import { createOutbox, type Lane } from './outbox.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

const running: { stop: AbortController; done: Promise<void> }[] = [];
afterEach(async () => {
  for (const { stop } of running) stop.abort();
  await Promise.all(running.splice(0).map(({ done }) => done));
  await db.sql`delete from outbox`;
});

function relay(handle: Lane<undefined>['handle'], more: Partial<Parameters<typeof createOutbox>[0]> = {}) {
  const lane = { handle, concurrency: () => 4 };
  const outbox = createOutbox<{ renderjob: undefined; event: undefined }>({
    database: db.database,
    logger: silentLogger(),
    lanes: { renderjob: lane, event: lane },
    pollMs: 20,
    leaseMs: 300,
    backoffMs: () => 30,
    ...more,
  });
  return {
    outbox,
    run() {
      const stop = new AbortController();
      running.push({ stop, done: outbox.run(stop.signal) });
      return stop;
    },
  };
}

const owe = async (job: string, due = new Date()) => {
  const [row] = await db.sql<{ id: bigint; created_at: Date }[]>`
    insert into outbox (kind, job_id, status, due_at) values ('event', ${job}, 'queued', ${due}) returning id, created_at`;
  if (!row) throw new Error('nothing owed');
  return { id: row.id, jobId: job, status: 'queued', createdAt: row.created_at };
};
const owed = async () => (await db.sql<{ n: number }[]>`select count(*)::int as n from outbox`)[0]?.n ?? 0;
const paid = () => untilTrue(async () => (await owed()) === 0, 'everything is paid');

test('a debt handed over is paid at once, long before a poll would find it', async () => {
  const seen: Task[] = [];
  const { outbox } = relay(async (task) => void seen.push(task));
  const task = await owe('a', new Date(Date.now() + 3_600_000));
  outbox.handOver('event', task);
  await paid();
  expect(seen).toEqual([{ ...task, attempts: 0 }]);
});

test('several relays share what is due, each debt paid once while nothing fails', async () => {
  const seen: string[] = [];
  const handle = async (task: Task) => {
    await delay(5);
    seen.push(task.jobId);
  };
  await Promise.all(Array.from({ length: 60 }, (_, i) => owe(`job ${i}`)));
  // A lease longer than any pause of this process; otherwise the debt would be paid twice.
  for (let i = 0; i < 3; i++) relay(handle, { leaseMs: 60_000 }).run();
  await paid();
  expect(seen).toHaveLength(60);
  expect(new Set(seen).size).toBe(60);
});

test('a debt that cannot be paid does not hold up the others, and keeps its reason', async () => {
  const seen = new Set<string>();
  await owe('bad');
  await Promise.all(Array.from({ length: 20 }, (_, i) => owe(`good ${i}`)));
  const { run } = relay(async (task) => {
    if (task.jobId === 'bad') throw new Error('never\0');
    seen.add(task.jobId);
  });
  run();
  await untilTrue(async () => (await owed()) === 1 && seen.size === 20, 'the good ones are paid');
  await untilTrue(async () => {
    const [row] = await db.sql<
      { attempts: number; last_error: string }[]
    >`select attempts, last_error from outbox`;
    return row !== undefined && row.attempts >= 3 && row.last_error === 'never';
  }, 'the bad one is tried again');
});

test('a debt that hangs in one lane keeps neither its own lane nor the other from paying', async () => {
  const seen: string[] = [];
  let begun = false;
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const handle = async (task: Task) => {
    if (task.jobId === 'hangs') {
      begun = true;
      await held;
    }
    seen.push(task.jobId);
  };
  const { run } = relay(handle, { leaseMs: 60_000 });
  await owe('hangs');
  run();
  await untilTrue(() => begun, 'it hangs');
  await owe('next');
  try {
    await untilTrue(() => seen.includes('next'), 'the next is paid');
    expect(seen).toEqual(['next']);
  } finally {
    release();
  }
  await untilTrue(() => seen.includes('hangs'), 'the slow one ends');
});

test('what a dead relay had claimed is free after its lease', async () => {
  let entered = 0;
  const dead = relay(() => {
    entered++;
    return new Promise(() => {});
  });
  await owe('job');
  // Never ends and claims nothing more, as if its process had been killed between the payment and its record.
  const killed = new AbortController();
  void dead.outbox.run(killed.signal);
  await untilTrue(() => entered > 0, 'it is claimed');
  killed.abort();
  const seen: Task[] = [];
  relay(async (task) => void seen.push(task)).run();
  await paid();
  expect(seen[0]?.attempts).toBeGreaterThanOrEqual(2);
});

test('the uid of a RenderJob is recorded with the debt paid, and never replaced', async () => {
  const account = await db.account();
  const { jobId } = await db.submitter()(account.submission());
  await db.sql`update outbox set due_at = now() where job_id = ${jobId}`;
  const { run } = relay(async () => ({ renderJobUid: 'uid 1' }));
  const first = run();
  await paid();
  const uid = async () =>
    (await db.sql`select renderjob_uid from jobs where id = ${jobId}`)[0]?.renderjob_uid;
  expect(await uid()).toBe('uid 1');
  first.abort();
  await Promise.all(running.splice(0).map(({ done }) => done));
  await db.sql`insert into outbox (kind, job_id, due_at) values ('renderjob', ${jobId}, now())`;
  const later = relay(async () => ({ renderJobUid: 'uid 2' }));
  later.run();
  await paid();
  expect(await uid()).toBe('uid 1');
});

test('more debts than a process takes in at once wait in the table', async () => {
  const seen: string[] = [];
  const { outbox, run } = relay(async (task) => {
    await delay(1);
    seen.push(task.jobId);
  });
  const tasks = await Promise.all(
    Array.from({ length: 100 }, (_, i) => owe(`job ${i}`, new Date(Date.now() + 100))),
  );
  for (const task of tasks) outbox.handOver('event', task);
  run();
  await paid();
  expect(new Set(seen).size).toBe(100);
});

test('what is left to the table is paid from there in the order it was owed in, each once, and so is what comes meanwhile', async () => {
  const seen: number[] = [];
  const handle = async (task: Task) => {
    await delay(1);
    seen.push(Number(task.jobId));
  };
  const { outbox, run } = relay(handle, {
    lanes: { renderjob: { handle, concurrency: () => 1 }, event: { handle, concurrency: () => 1 } },
    // Neither expires while this process stands still; a debt that falls due while it is being paid would be paid
    // twice.
    leaseMs: 60_000,
    ownMs: 60_000,
  });
  run();
  const due = () => new Date(Date.now() + 59_000);
  // None is left to the table while there is room for it in memory.
  for (let i = 0; i < 150; i++) {
    outbox.handOver('event', await owe(String(i), due()));
    while (seen.length <= i) await delay(1);
  }
  // The first pass through memory: one at work, and those that wait.
  const burst: Awaited<ReturnType<typeof owe>>[] = [];
  for (let i = 150; i < 300; i++) burst.push(await owe(String(i), due()));
  for (const task of burst) outbox.handOver('event', task);
  await paid();
  expect(seen.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 300 }, (_, i) => i));
  const late = seen.filter((i) => i >= 200);
  expect(late).toEqual(late.toSorted((a, b) => a - b));
  // Caught up: a new debt is paid at once again, although it falls due in an hour.
  outbox.handOver('event', await owe('300', new Date(Date.now() + 3_600_000)));
  await paid();
});

test('pays fewer at once while its lane says so, and never none', async () => {
  let wanted = 4;
  let atOnce = 0;
  let most = 0;
  const handle = async () => {
    most = Math.max(most, ++atOnce);
    await delay(5);
    atOnce--;
  };
  const lane = { handle, concurrency: () => wanted };
  const { outbox } = relay(handle, { lanes: { renderjob: lane, event: lane } });
  const tasks = await Promise.all(Array.from({ length: 24 }, (_, i) => owe(`job ${i}`)));
  for (const task of tasks.slice(0, 12)) outbox.handOver('event', task);
  await untilTrue(async () => (await owed()) === 12, 'the first are paid');
  expect(most).toBe(4);
  wanted = 0;
  most = 0;
  for (const task of tasks.slice(12)) outbox.handOver('event', task);
  await paid();
  expect(most).toBe(1);
});
