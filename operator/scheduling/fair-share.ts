/** Taken for the length of a render of a capability of which none has ended yet, in seconds. */
const FIRST_GUESS_SECONDS = 10;
/** Weight of the newest of the lengths seen. */
const LEARNING = 0.1;
/** How far an account that could not be served may be behind the others, in virtual seconds: its claim to catch up. */
const LARGEST_CLAIM_SECONDS = 10;
/** Accounts that are forgotten once they are even with the others are looked for each time so many have come. */
const SWEEP = 1_000;

/** Work that holds slots. */
export interface Work {
  readonly account: string;
  readonly capability: string;
  readonly slots: number;
  /** Unix milliseconds. */
  readonly since: number;
}

/**
 * Start-time fair queueing over slot-seconds. Each account has a virtual time: the slot-seconds that it has used, and
 * those it is expected to use by what it holds now, divided by its weight. Of those that wait, the one with the least
 * comes next. An account that begins to wait starts at the virtual time of the one served last, so that nobody saves
 * up for idle time; one account's many jobs are to another's one as if there were one.
 *
 * After P. Goyal, H. Vin, H. Cheng, "Start-time Fair Queueing" (1996); what is held counts by the clock, since the
 * length of a render is not known beforehand.
 */
export interface FairShare {
  /** The job holds slots; to be called as often as one likes. */
  started(uid: string, work: Work): void;
  /** It holds none any more. @param whole its length says how long others of its capability will take */
  ended(uid: string, at: number, whole: boolean): void;
  /** It held some and had ended before this began. */
  past(work: Work, at: number): void;
  /** The account begins to wait. */
  joined(account: string, now: number): void;
  /** The account has been given slots because of its virtual time. */
  served(account: string, now: number): void;
  /** Virtual time of an account, in seconds. */
  virtualTime(account: string, now: number): number;
  /** Seconds of virtual time that a job of the account is expected to cost it. */
  costOf(account: string, capability: string, slots: number): number;
  /** Jobs of the account that hold slots. */
  runningOf(account: string): number;
  /** Accounts of which something is kept. */
  readonly size: number;
}

interface Account {
  /** Slot-seconds used by what has ended. */
  used: number;
  /** Slots held, and the sum of them times the second in which each was taken. */
  slots: number;
  taken: number;
  /** Slot-seconds that what is held was expected to take. */
  expected: number;
  jobs: number;
}

/** @param weights by account; 1 for those not named */
export function createFairShare(weights: ReadonlyMap<string, number> = new Map()): FairShare {
  const accounts = new Map<string, Account>();
  const held = new Map<string, Work & { readonly expected: number }>();
  const lengths = new Map<string, number>();
  let served = 0;
  let sweepAt = SWEEP;

  const weightOf = (account: string) => weights.get(account) ?? 1;
  const lengthOf = (capability: string) => lengths.get(capability) ?? FIRST_GUESS_SECONDS;

  function stateOf(account: string): Account {
    const known = accounts.get(account);
    if (known) return known;
    // As far as who was served last: whoever comes for the first time has no claim to the past.
    const made = { used: served * weightOf(account), slots: 0, taken: 0, expected: 0, jobs: 0 };
    accounts.set(account, made);
    return made;
  }

  /** Returns what the account has had by now, without what it is expected to take besides. */
  function had(account: string, { used, slots, taken }: Account, now: number): number {
    return (used + slots * (now / 1000) - taken) / weightOf(account);
  }

  function virtualTime(account: string, now: number): number {
    const state = accounts.get(account);
    if (!state) return served;
    const own = had(account, state, now) + state.expected / weightOf(account);
    return Math.max(own, served - LARGEST_CLAIM_SECONDS);
  }

  /** Lifts an account that is farther behind than that. */
  function lift(account: string, now: number, least: number): void {
    const state = stateOf(account);
    const behind = least - had(account, state, now) - state.expected / weightOf(account);
    if (behind > 0) state.used += behind * weightOf(account);
  }

  /** One that is not ahead of the others will be where they are when it comes again. */
  function sweep(now: number): void {
    if (accounts.size < sweepAt) return;
    for (const [account, { jobs }] of accounts) {
      if (jobs === 0 && virtualTime(account, now) <= served) accounts.delete(account);
    }
    sweepAt = accounts.size + SWEEP;
  }

  function learn(capability: string, seconds: number): void {
    const before = lengths.get(capability);
    lengths.set(capability, before === undefined ? seconds : before + LEARNING * (seconds - before));
  }

  return {
    started(uid, work) {
      const before = held.get(uid);
      if (before) {
        if (before.slots === work.slots && before.account === work.account) return;
        drop(uid, before);
      }
      sweep(work.since);
      lift(work.account, work.since, served - LARGEST_CLAIM_SECONDS);
      const expected = work.slots * lengthOf(work.capability);
      held.set(uid, { ...work, expected });
      const state = stateOf(work.account);
      state.slots += work.slots;
      state.taken += work.slots * (work.since / 1000);
      state.expected += expected;
      state.jobs++;
    },
    ended(uid, at, whole) {
      const work = held.get(uid);
      if (!work) return;
      drop(uid, work);
      const seconds = Math.max(0, (at - work.since) / 1000);
      stateOf(work.account).used += work.slots * seconds;
      if (whole) learn(work.capability, seconds);
    },
    past(work, at) {
      const seconds = Math.max(0, (at - work.since) / 1000);
      stateOf(work.account).used += work.slots * seconds;
      learn(work.capability, seconds);
    },
    joined(account, now) {
      lift(account, now, served);
    },
    served(account, now) {
      // Not what it holds is expected to take: were that less in the end, all others would be behind for nothing.
      served = Math.max(served, had(account, stateOf(account), now));
    },
    virtualTime,
    costOf: (account, capability, slots) => (slots * lengthOf(capability)) / weightOf(account),
    runningOf: (account) => accounts.get(account)?.jobs ?? 0,
    get size() {
      return accounts.size;
    },
  };

  function drop(
    uid: string,
    { account, slots, since, expected }: Work & { readonly expected: number },
  ): void {
    held.delete(uid);
    const state = stateOf(account);
    state.slots -= slots;
    state.taken -= slots * (since / 1000);
    state.expected -= expected;
    state.jobs--;
    // Nothing is held: nothing that rounding has left is either.
    if (state.jobs === 0) Object.assign(state, { slots: 0, taken: 0, expected: 0 });
  }
}
