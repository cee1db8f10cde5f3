import { silentLogger } from '@semblance/common/logging';
import {
  openSession,
  reserveSession,
  type SessionRig,
  sessionRig,
  told,
} from '@semblance/testkit/control-plane/sessions';
import { testDatabase } from '@semblance/testkit/control-plane/storage';
import { type SettableClock, settableClock } from '@semblance/testkit/control-plane/storage-clock';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { Sql } from '../storage/sql.ts';
import { createExpiry } from './expiry.ts';

let rig: SessionRig;
let clock: SettableClock;
let accountId: string;
/** The clock of the process. Like that of the database it advances only as the test says. */
let steadyMs = 0;
let opening: string;
let waiting: string;
let silent: string;
let live: string;

beforeAll(async () => {
  const db = await testDatabase();
  clock = await settableClock(db.url);
  rig = await sessionRig(db);
  // Longer than any other time, so that each ends in its turn.
  await db.sql`update settings set session_connect_seconds = 60`;
  ({ accountId } = await db.account(100));
});
afterAll(async () => {
  await clock.close();
  await rig.db.close();
});
beforeEach(async () => {
  await rig.db
    .sql`select refuse_session(id), settle_session(id, 'cancelled', null) from sessions where ended_at is null`;
  opening = (await reserveSession(rig.db.sql, accountId)).id;
  waiting = await openSession(rig.db.sql, accountId);
  silent = await rig.streaming(accountId);
  live = await rig.streaming(accountId);
});

/** The expiry of a control plane whose statements take this many seconds before or after they reach the database. */
function plane(slow = { before: 0, after: 0 }) {
  const sql = (async (text: TemplateStringsArray, ...values: unknown[]) => {
    await pass(slow.before);
    const rows = await rig.db.sql(text, ...values);
    await pass(slow.after);
    return rows;
  }) as unknown as Sql;
  const logger = silentLogger();
  return createExpiry({
    database: { ...rig.db.database, sql },
    logger,
    steady: () => steadyMs,
  });
}

type Expiry = ReturnType<typeof plane>;

/** Advances the clocks of process and database. */
async function pass(seconds: number): Promise<void> {
  if (seconds === 0) return;
  steadyMs += seconds * 1_000;
  await clock.set(seconds);
}

/** One second at a time; the live session is reported every other one. */
async function watch(planes: readonly Expiry[], seconds: number): Promise<void> {
  for (let second = 1; second <= seconds; second++) {
    await pass(1);
    if (second % 2 === 0) await rig.report([told(live, 1)]);
    for (const { look } of planes) await look();
  }
}

async function states(): Promise<Record<string, unknown>> {
  const rows = await rig.db.sql<{ id: string; state: string }[]>`
    select id, state from sessions where id = any(${[opening, waiting, silent, live]}::text[])`;
  const of = (id: string) => rows.find((row) => row.id === id)?.state;
  return { opening: of(opening), waiting: of(waiting), silent: of(silent), live: of(live) };
}

const ALL = { opening: 'opening', waiting: 'open', silent: 'connected', live: 'connected' };

/** Each within the second or two between reports. */
async function endsAfter(planes: readonly Expiry[], { silentFor }: { silentFor: number }): Promise<void> {
  await watch(planes, silentFor - 3);
  expect(await states()).toEqual(ALL);
  await watch(planes, 5);
  expect(await states()).toEqual({ ...ALL, silent: 'ended' });
  await watch(planes, 27 - silentFor - 2);
  expect(await states()).toEqual({ ...ALL, silent: 'ended' });
  await watch(planes, 5);
  expect(await states()).toEqual({ ...ALL, silent: 'ended', opening: 'refused' });
  await watch(planes, 25);
  expect(await states()).toEqual({ ...ALL, silent: 'ended', opening: 'refused' });
  await watch(planes, 5);
  expect(await states()).toEqual({
    opening: 'refused',
    waiting: 'ended',
    silent: 'ended',
    live: 'connected',
  });
  expect(await rig.db.faults(accountId)).toEqual([]);
}

test('while nobody sets the clock each ends when its time is over', async () => {
  await endsAfter([plane()], { silentFor: 15 });
});

test('statements that take long are no step of the clock', async () => {
  for (const slow of [
    { before: 2, after: 1 },
    { before: 0, after: 4 },
  ]) {
    const expiry = plane(slow);
    // Each takes four or five seconds with the pause.
    for (let looks = 0; looks < 16; looks++) await watch([expiry], 1);
    expect(await states()).toMatchObject({ opening: 'refused', silent: 'ended', waiting: 'ended' });
    waiting = await openSession(rig.db.sql, accountId);
  }
});

test.each([20, 3_600, 86_400])(
  'a clock that is set forwards by %i s ends nothing, and from then on each has its time',
  async (step) => {
    const planes = [plane(), plane()];
    await watch(planes, 10);
    await clock.set(step);
    for (const { look } of planes) await look();
    expect(await states()).toEqual(ALL);
    await endsAfter(planes, { silentFor: 15 });
  },
);

test('a client that connects in its minute is let in, wherever the clock is', async () => {
  const expiry = plane();
  await watch([expiry], 10);
  await clock.set(3_600);
  await watch([expiry], 45);
  await expect(rig.connect(waiting)).resolves.toMatchObject({ accountId });
  await rig.report([told(waiting, 1_000)]);
  await watch([expiry], 10);
  expect(await states()).toMatchObject({ waiting: 'connected', live: 'connected' });
});

test('a step behind a statement that takes long is found by the next', async () => {
  const slow = { before: 0, after: 0 };
  const expiry = plane(slow);
  await watch([expiry], 20);
  expect(await states()).toMatchObject({ silent: 'ended' });
  slow.after = 4;
  await clock.set(5);
  await expiry.look();
  slow.after = 0;
  await rig.db.sql`update sessions set reported_at = now() - interval '14 seconds' where id = ${live}`;
  await pass(1.5);
  await expiry.look();
  expect(await states()).toMatchObject({ live: 'connected' });
});

test('a clock that is set forwards while the database is away', async () => {
  const expiry = plane();
  await watch([expiry], 10);
  steadyMs += 15_000;
  await clock.set(15 + 3_600);
  await watch([expiry], 10);
  expect(await states()).toEqual(ALL);
  await watch([expiry], 10);
  expect(await states()).toEqual({ ...ALL, silent: 'ended' });
});

test.each([20, 3_600])('a clock that is set back by %i s keeps nobody for longer', async (step) => {
  const planes = [plane(), plane()];
  await watch(planes, 10);
  await clock.set(-step);
  for (const { look } of planes) await look();
  expect(await states()).toEqual(ALL);
  // Openings from before begin then.
  await watch(planes, 30);
  expect(await states()).toMatchObject({ silent: 'ended', live: 'connected' });
  await watch(planes, 35);
  expect(await states()).toEqual({
    opening: 'refused',
    waiting: 'ended',
    silent: 'ended',
    live: 'connected',
  });
});

test('report settings that are lowered end no session that was told the former ones, and raised ones are for all', async () => {
  const report = (seconds: number, timeout: number) => rig.db.sql`
    update settings set session_report_seconds = ${seconds}, session_report_timeout_seconds = ${timeout}`;
  try {
    await report(20, 60);
    const expiry = plane();
    // One reported every 20 s, as its gateway was told, and one not at all.
    const [slow, mute] = [await rig.streaming(accountId), await rig.streaming(accountId)];
    const of = async (id: string) => (await rig.rowOf(id))?.state;
    await report(2, 15);
    const twentySeconds = async () => {
      await watch([expiry], 20);
      await rig.report([told(slow, 1_000)]);
    };
    await twentySeconds();
    await twentySeconds();
    expect([await of(slow), await of(mute)]).toEqual(['connected', 'connected']);
    // Earlier ones keep the settings from their connection.
    expect(await states()).toMatchObject({ silent: 'ended', live: 'connected' });
    await twentySeconds();
    await watch([expiry], 5);
    expect([await of(slow), await of(mute)]).toEqual(['connected', 'ended']);

    const quick = await rig.streaming(accountId);
    await report(20, 60);
    await watch([expiry], 30);
    expect(await of(quick)).toBe('connected');
    await watch([expiry], 35);
    expect(await of(quick)).toBe('ended');
  } finally {
    await report(2, 15);
  }
});

test('a session that connected at a release which kept nothing has the time that is set', async () => {
  await rig.db.sql`update sessions set report_timeout_seconds = null where id = ${silent}`;
  await endsAfter([plane()], { silentFor: 15 });
});

test('a control plane that starts after the clock was set back ends what is silent, too', async () => {
  await clock.set(-3_600);
  await watch([plane()], 65);
  expect(await states()).toEqual({
    opening: 'refused',
    waiting: 'ended',
    silent: 'ended',
    live: 'connected',
  });
});
