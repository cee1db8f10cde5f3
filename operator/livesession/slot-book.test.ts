import { SessionState, type SessionStatus } from '@semblance/proto/semblance/live/v1/live';
import { expect, it } from 'vitest';
import { createSlotBook } from './slot-book.ts';

const one = { agent: 'one', incarnation: 'i1' };
const two = { agent: 'two', incarnation: 'j1' };
const {
  SESSION_STATE_CLAIMED: CLAIMED,
  SESSION_STATE_STREAMING: STREAMING,
  SESSION_STATE_ENDED: ENDED,
} = SessionState;
const report = (sessionId: string, state: SessionState): SessionStatus => ({
  sessionId,
  capability: 'voice',
  state,
  streamedMs: 0n,
  reason: 0,
  goingAway: false,
  fault: '',
  rejected: '',
  received: 0n,
  converted: 0n,
  dropped: 0n,
});

function world() {
  const freed: string[] = [];
  const book = createSlotBook({
    onFreed: (capability, { agent }) => freed.push(`${agent} ${capability}`),
    onChanged() {},
  });
  return { book, freed, used: (place = one) => book.used(place, 'voice') };
}

/** Waits until the clock has advanced. */
function tick(): void {
  const from = performance.now();
  while (performance.now() <= from);
}

it('counts a session once, whoever speaks of it, until nobody does', () => {
  const { book, freed, used } = world();
  book.claim(one, 's', 'voice');
  book.confirm(one, 's');
  book.report(one, report('s', CLAIMED));
  book.bind(one, 's', 'voice', true);
  book.unclaim(one, 's');
  expect(used()).toBe(1);
  expect(book.usedIn(one)).toBe(1);
  book.report(one, report('s', ENDED));
  expect(used()).toBe(0);
  expect(freed).toEqual(['one voice']);
  // This report was under way when the session ended.
  book.report(one, report('s', STREAMING));
  expect(used()).toBe(0);
  expect(book.at(one, 's')?.report?.state).toBe(ENDED);
  book.bind(one, 's', 'voice', false);
  expect(book.knows(one, 's')).toBe(false);
  expect(book.of('s')).toEqual([]);
});

it('keeps a slot taken until the agent is known to have let go', () => {
  const { book, used } = world();
  book.claim(one, 's', 'voice');
  book.doom(one, 's', 'voice');
  book.claim(two, 's', 'voice');
  expect([used(), used(two)]).toEqual([1, 1]);
  expect(book.of('s').map(({ place, doomed }) => [place.agent, doomed])).toEqual([
    ['one', true],
    ['two', false],
  ]);
  book.ended(one, 's');
  expect([used(), used(two)]).toEqual([0, 1]);
  expect(book.knows(one, 's')).toBe(false);
});

it('believes a snapshot in what it lacks, except of slots given after it was asked for', () => {
  const { book, used } = world();
  book.bind(one, 'forgotten', 'voice', true);
  book.report(one, report('forgotten', STREAMING));
  book.report(one, report('stray', STREAMING));
  book.claim(one, 'early', 'voice');
  book.confirm(one, 'early');
  book.unclaim(one, 'early');
  tick();
  const openedAt = performance.now();
  tick();
  book.claim(one, 'late', 'voice');
  book.confirm(one, 'late');
  book.unclaim(one, 'late');
  book.claim(one, 'asked', 'voice');
  expect(used()).toBe(5);
  const touched = book.snapshot(one, [report('new', CLAIMED)], openedAt);
  expect([...touched].toSorted()).toEqual(['asked', 'early', 'forgotten', 'late', 'new', 'stray']);
  expect(book.at(one, 'forgotten')?.report).toBeUndefined();
  expect(book.knows(one, 'stray')).toBe(false);
  expect(book.knows(one, 'early')).toBe(false);
  expect(book.at(one, 'late')?.report?.state).toBe(CLAIMED);
  expect(book.at(one, 'asked')?.claimed).toBe(true);
  expect(book.sessionsOn('one').toSorted()).toEqual(['asked', 'forgotten', 'late', 'new']);
  // LiveSessions still name these slots.
  expect(used()).toBe(4);
});

it('forgets everything when all is over', () => {
  const { book, used } = world();
  for (let i = 0; i < 100; i++) {
    const session = `s-${i}`;
    book.claim(one, session, 'voice');
    book.confirm(one, session);
    book.bind(one, session, 'voice', true);
    book.unclaim(one, session);
  }
  expect(used()).toBe(100);
  for (let i = 0; i < 100; i++) {
    if (i % 2) book.report(one, report(`s-${i}`, ENDED));
    else book.ended(one, `s-${i}`);
    book.bind(one, `s-${i}`, 'voice', false);
  }
  expect([used(), book.sessionsOn('one').length, book.of('s-1').length]).toEqual([0, 0, 0]);
});
