import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createRoom, GRACE_MS, PER_ORIGIN, REMEMBERED } from './room.ts';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

/** A room in which every attempt begins at once; `enter` returns how to leave. */
const room = () => {
  const made = createRoom();
  return {
    ...made,
    enter(origin: string, account: string) {
      const stay = made.enter(origin, account);
      stay.begin();
      return () => stay.leave();
    },
  };
};
type Place = ReturnType<typeof room>;

/** Enters as often as is admitted; the returned function leaves all of them. */
function fill(place: Place, origin: string, account: string) {
  const leave: (() => void)[] = [];
  while (place.admits(origin, account) && leave.length < 2000) leave.push(place.enter(origin, account));
  return { count: leave.length, leave: () => leave.splice(0).forEach((one) => void one()) };
}

test('an origin nothing is known of gets two places, and twice as many for each attempt that it answers at once', () => {
  const place = room();
  const counts = [1, 2, 3].map(() => {
    const { count, leave } = fill(place, 'http://a', 'one');
    leave();
    return count;
  });
  expect(counts).toEqual([2, 8, PER_ORIGIN]);
});

test('origins that hang leave the places of those that answer free', () => {
  const place = room();
  place.enter('http://good', 'one')();
  for (let i = 0; i < 100; i++) fill(place, `http://hangs-${i}`, 'one');
  vi.advanceTimersByTime(GRACE_MS);
  for (let i = 100; i < 200; i++) fill(place, `http://hangs-${i}`, 'one');
  vi.advanceTimersByTime(GRACE_MS);
  expect(place.admits('http://good', 'one')).toBe(true);
  expect(fill(place, 'http://good', 'one').count).toBe(4);
});

test('one account never has all the room: an account that comes later finds a place, with origins of every standing', () => {
  const place = room();
  for (const account of ['one', 'other']) place.enter(`http://good-${account}`, account)();
  place.enter('http://slow-other', 'other');
  vi.advanceTimersByTime(GRACE_MS);
  for (let round = 0; round < 50; round++) {
    for (let i = 0; i < 50; i++) fill(place, `http://hangs-${round}-${i}`, 'one');
    fill(place, 'http://good-one', 'one');
    vi.advanceTimersByTime(GRACE_MS);
  }
  for (let i = 0; i < 50; i++) fill(place, `http://more-${i}`, 'one');
  expect(place.admits('http://newcomer', 'one')).toBe(false);
  for (const origin of ['http://newcomer', 'http://good-other', 'http://slow-other'])
    expect(place.admits(origin, 'other'), origin).toBe(true);
});

test('accounts that want everything get equal shares, and leave one for the next', () => {
  const place = room();
  const wanting = ['a', 'b', 'c'];
  const originsOf = (account: string) => Array.from({ length: 8 }, (_, i) => `http://${account}-${i}`);
  for (const account of wanting) {
    for (const origin of originsOf(account)) for (let i = 0; i < 4; i++) place.enter(origin, account)();
  }
  const counts = new Map(wanting.map((account) => [account, 0]));
  for (let round = 0; round < 200; round++) {
    for (const account of wanting) {
      const origin = originsOf(account).find((each) => place.admits(each, account));
      if (origin === undefined) continue;
      place.enter(origin, account);
      counts.set(account, (counts.get(account) ?? 0) + 1);
    }
  }
  expect([...counts.values()]).toEqual([64, 64, 64]);
});

test('an origin that answers at once again is prompt again', () => {
  const place = room();
  const leave = place.enter('http://a', 'one');
  vi.advanceTimersByTime(GRACE_MS);
  leave();
  const slow = fill(place, 'http://a', 'one');
  expect(slow.count).toBe(PER_ORIGIN);
  slow.leave();
  // If it were still slow, the full room of the slow ones would close it.
  for (let i = 0; i < 1_100; i++) {
    place.enter(`http://hangs-${i}`, 'one');
    vi.advanceTimersByTime(GRACE_MS);
  }
  expect(place.admits('http://a', 'one')).toBe(true);
});

test('an origin is not slow because this process stood still, and is when it takes long all the same', () => {
  const place = room();
  const stoodFor = (ms: number) => vi.spyOn(performance, 'now').mockReturnValue(performance.now() + ms);
  const [leave] = ['http://a', 'http://b'].map((origin) => place.enter(origin, 'one'));
  const now = stoodFor(6_000);
  vi.advanceTimersByTime(GRACE_MS);
  now.mockRestore();
  leave?.();
  expect(['http://a', 'http://b'].map(place.standing)).toEqual(['prompt', 'new']);
  vi.advanceTimersByTime(GRACE_MS);
  expect(place.standing('http://b')).toBe('slow');
});

test('it tells which origins are closed, and forgets those it has not seen for longest', () => {
  const place = room();
  const first = fill(place, 'http://busy', 'one');
  expect(place.closed()).toEqual(['http://busy']);
  for (let i = 0; i <= REMEMBERED; i++) place.enter(`http://${i}`, 'one')();
  expect(['http://0', `http://${REMEMBERED}`].map(place.standing)).toEqual(['new', 'prompt']);
  expect(place.closed()).toEqual(['http://busy']);
  first.leave();
  expect(place.closed()).toEqual([]);
});

test('a place that was not used says nothing of the origin', () => {
  const made = createRoom();
  for (let i = 0; i < 5; i++) made.enter('http://a', 'one').leave();
  const stays = [made.enter('http://a', 'one'), made.enter('http://a', 'one')];
  vi.advanceTimersByTime(10 * GRACE_MS);
  expect(made.admits('http://a', 'one')).toBe(false);
  for (const stay of stays) stay.leave();
  expect(made.admits('http://a', 'one')).toBe(true);
});

test('what is late leaves the room of the new, however much is slow already, and every account has a place among the slow', () => {
  const place = room();
  for (let i = 0; i < 600; i++) {
    fill(place, `http://hangs-${i}`, 'one');
    vi.advanceTimersByTime(GRACE_MS);
  }
  expect(fill(place, 'http://newcomer', 'one').count).toBe(2);
  expect(place.admits('http://hangs-1', 'one')).toBe(false);
  place.enter('http://slow-other', 'other');
  vi.advanceTimersByTime(GRACE_MS);
  expect(place.admits('http://slow-other', 'other')).toBe(true);
});
