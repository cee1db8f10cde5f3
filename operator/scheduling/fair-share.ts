/** Length assumed for a render of a capability of which none has ended, in seconds. */
const FIRST_GUESS_SECONDS = 10;
/** Weight of the newest length in the moving average. */
const LEARNING = 0.1;
/** How far an account that could not be served may lag behind the others, and then catch up, in virtual seconds. */
const LARGEST_CLAIM_SECONDS = 10;
/** Number of new accounts after which those even with the others are forgotten. */
const SWEEP = 1_000;

/** Work that holds slots. */
export interface Work {
  readonly account: string;
  readonly capability: string;
  readonly slots: number;
  /** When it took the slots, in Unix milliseconds. */
  readonly since: number;
}

/**
 * Start-time fair queueing over slot-seconds. An account's virtual time is the slot-seconds it has used, plus those
 * its present work is expected to use, divided by its weight. Of the waiting accounts the one with the least comes
 * next. An account that begins to wait starts at the virtual time of the one served last, so that idle time saves
 * up nothing. Many jobs of one account delay another's single job no more than one would.
 *
 * After P. Goyal, H. Vin, H. Cheng, "Start-time Fair Queueing" (1996). Held slots count by the clock, because the
 * length of a render is not known beforehand.
 */
export interface FairShare {
  /** Notes that the job holds slots; may be repeated. */
  started(uid: string, work: Work): void;
  /** Notes that it holds none any more. @param whole its length predicts that of others of its capability */
  ended(uid: string, at: number, whole: boolean): void;
  /** Notes work that held slots and ended before this process began. */
  past(work: Work, at: number): void;
  /** Notes that the account begins to wait. */
  joined(account: string, now: number): void;
  /** Notes that the account got slots because of its virtual time. */
  served(account: string, now: number): void;
  /** Returns the virtual time of an account, in seconds. */
  virtualTime(account: string, now: number): number;
  /** Returns the expected cost of a job for its account, in virtual seconds. */
  costOf(account: string, capability: string, slots: number): number;
  /** Returns the number of the account's jobs that hold slots. */
  runningOf(account: string): number;
  /** Number of accounts with a state. */
  readonly size: number;
}

interface Account {
  /** Slot-seconds used by work that has ended. */
  used: number;
  /** Slots held, and the sum of slots × start time in seconds. */
  slots: number;
  taken: number;
  /** Slot-seconds that held slots were expected to take. */
  expected: number;
  jobs: number;
}

/** @param weights weights by account; 1 for accounts not named */
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
    // A new account starts where the last one served is: it has no claim to the past.
    const made = { used: served * weightOf(account), slots: 0, taken: 0, expected: 0, jobs: 0 };
    accounts.set(account, made);
    return made;
  }

  /** Returns the virtual time of what the account has had by now, without what it is expected to use besides. */
  function had(account: string, { used, slots, taken }: Account, now: number): number {
    return (used + slots * (now / 1000) - taken) / weightOf(account);
  }

  function virtualTime(account: string, now: number): number {
    const state = accounts.get(account);
    if (!state) return served;
    const own = had(account, state, now) + state.expected / weightOf(account);
    return Math.max(own, served - LARGEST_CLAIM_SECONDS);
  }

  /** Lifts an account whose virtual time is below `least`. */
  function lift(account: string, now: number, least: number): void {
    const state = stateOf(account);
    const behind = least - had(account, state, now) - state.expected / weightOf(account);
    if (behind > 0) state.used += behind * weightOf(account);
  }

  /** Forgets idle accounts that are not ahead: they would start even with the others again. */
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
      // Expected use does not count here. If it proved too high, all others would be behind for nothing.
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
    // Nothing is held, so rounding errors are cleared.
    if (state.jobs === 0) Object.assign(state, { slots: 0, taken: 0, expected: 0 });
  }
}
