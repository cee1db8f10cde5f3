import { afterEach, expect, it } from 'vitest';
import type { Candidate } from './choose.ts';
import { createPlacer, type Placer, placeKey } from './placer.ts';
import { createSlotBook, type SlotBook } from './slot-book.ts';

const HOUR_MS = 3_600_000;
const never = new AbortController().signal;
const made: Placer[] = [];

afterEach(() => {
  for (const placer of made.splice(0)) placer.stop();
});

function world(agents: Record<string, { slots: number; warming?: boolean; outlook?: Candidate['outlook'] }>) {
  const candidates = new Map<string, Candidate>();
  const set = (
    name: string,
    { slots, warming = false, outlook = 'ready' as const }: (typeof agents)[string],
  ) =>
    void candidates.set(name, {
      name,
      incarnation: `${name}-1`,
      address: `${name}:1`,
      outlook,
      live: new Map([['voice', { slots, warming }]]),
    });
  for (const [name, agent] of Object.entries(agents)) set(name, agent);
  const waiting = { count: 0 };
  const book: SlotBook = createSlotBook({
    onFreed: (capability) => placer.freed(capability),
    onChanged() {},
  });
  const placer = createPlacer({
    book,
    candidate: (name) => candidates.get(name),
    onWaiting: (_, count) => {
      waiting.count = count;
    },
  });
  made.push(placer);
  for (const name of Object.keys(agents)) placer.touch(name);
  /**
   * Places a session and returns the agent or the error code. It waits for an hour if there is something to wait
   * for.
   */
  const acquire = (
    session: string,
    more: { refused?: string[]; until?: number; signal?: AbortSignal } = {},
  ) =>
    placer
      .acquire({
        session,
        capability: 'voice',
        signal: more.signal ?? never,
        refused: new Set((more.refused ?? []).map((name) => placeKey(place(name)))),
        until: more.until ?? performance.now() + HOUR_MS,
      })
      .then(
        ({ agent }) => agent,
        (error: { code?: string; message: string }) => error.code ?? error.message,
      );
  const remove = (name: string) => {
    candidates.delete(name);
    placer.touch(name);
  };
  return { placer, book, set, remove, acquire, waiting };
}

const place = (agent: string) => ({ agent, incarnation: `${agent}-1` });
const end = (book: SlotBook, agent: string, session: string) => {
  book.confirm(place(agent), session);
  book.unclaim(place(agent), session);
  book.ended(place(agent), session);
};

it('fills the emptiest agent first, and never one beyond its slots', async () => {
  const { acquire, book, waiting } = world({ a: { slots: 1 }, b: { slots: 3 } });
  const given = await Promise.all(['1', '2', '3', '4'].map((name) => acquire(name)));
  // The first by name wins among equals.
  expect(given).toEqual(['b', 'b', 'a', 'b']);
  const fifth = acquire('5');
  expect(waiting.count).toBe(1);
  end(book, 'a', '3');
  expect(await fifth).toBe('a');
  expect([book.used(place('a'), 'voice'), book.used(place('b'), 'voice')]).toEqual([1, 3]);
});

it('serves those that wait in their order, but for one that the free agent has refused', async () => {
  const { acquire, book } = world({ a: { slots: 1 }, b: { slots: 1 } });
  await Promise.all([acquire('x'), acquire('y')]);
  const order: string[] = [];
  const wait = (name: string, refused: string[] = []) =>
    acquire(name, { refused }).then((agent) => order.push(`${name} ${agent}`));
  const all = [wait('1', ['a']), wait('2'), wait('3')];
  end(book, 'a', 'x');
  await all[1];
  end(book, 'b', 'y');
  await all[0];
  end(book, 'a', '2');
  await Promise.all(all);
  expect(order).toEqual(['2 a', '1 b', '3 a']);
});

it('waits for nobody who is not there to be waited for', async () => {
  expect(await world({}).acquire('s')).toBe('capacity_unavailable');
  expect(await world({ a: { slots: 1, outlook: 'no' } }).acquire('s')).toBe('capacity_unavailable');
  expect(await world({ a: { slots: 0, warming: true } }).acquire('s')).toBe('capacity_warming');
  expect(await world({ a: { slots: 0, warming: true, outlook: 'no' } }).acquire('s')).toBe(
    'capacity_unavailable',
  );
  // The only agent has refused already.
  expect(await world({ a: { slots: 2 } }).acquire('s', { refused: ['a'] })).toBe('capacity_unavailable');
});

it('waits for an agent that cannot be reached this moment, and for one that is left alone a while', async () => {
  const soon = world({ a: { slots: 1, outlook: 'soon' } });
  const first = soon.acquire('s');
  soon.set('a', { slots: 1 });
  soon.placer.touch('a');
  expect(await first).toBe('a');

  const paused = world({ a: { slots: 2 } });
  paused.placer.pause('a', 20);
  const second = paused.acquire('s');
  expect(paused.waiting.count).toBe(1);
  expect(await second).toBe('a');
});

it('gives up when its time is over or nobody waits any more, and leaves nothing', async () => {
  const { acquire, waiting } = world({ a: { slots: 1 }, b: { slots: 0, warming: true } });
  await acquire('x');
  const stop = new AbortController();
  const given = acquire('gone', { signal: stop.signal });
  stop.abort(new Error('nobody waits'));
  expect(await given).toBe('nobody waits');
  expect(await acquire('late', { until: performance.now() })).toBe('capacity_warming');
  expect(waiting.count).toBe(0);
});

it('asks no agent for a session that it may still hold', async () => {
  const { acquire, book } = world({ a: { slots: 9 }, b: { slots: 1 } });
  book.doom(place('a'), 's', 'voice');
  expect(await acquire('s')).toBe('b');
});

it('forgets that an agent is left alone when the agent is gone', async () => {
  const { placer, set, remove, acquire } = world({ a: { slots: 2 } });
  placer.pause('a', HOUR_MS);
  placer.pause('a', HOUR_MS, 'voice');
  remove('a');
  // The agent is gone already.
  placer.pause('a', HOUR_MS);
  set('a', { slots: 2 });
  placer.touch('a');
  expect(await acquire('s', { until: performance.now() })).toBe('a');
});
