/**
 * Behaviour of an origin: `new`, nothing is known about it; `prompt`, its latest ended attempt was fast; `slow`, an
 * attempt at it takes long.
 */
export type Standing = 'new' | 'prompt' | 'slow';

/** Attempts under way at once, by the standing of their origin. */
const CAPACITY: Readonly<Record<Standing, number>> = { new: 128, prompt: 256, slow: 1_024 };
/** Attempts under way at one origin. */
export const PER_ORIGIN = 16;
/** Time in ms above which an attempt makes its origin slow. */
export const GRACE_MS = 500;
/** Origins whose standing is remembered. */
export const REMEMBERED = 10_000;

interface Origin {
  standing: Standing;
  /** Attempts that it may have under way: few at first, doubled by each fast one. */
  allowance: number;
  running: number;
  /** Account of its latest delivery. */
  account: string;
}

/** A taken place. */
export interface Stay {
  /** Starts the attempt; its time counts from now on. */
  begin(): void;
  /** Returns the place; once is enough. */
  leave(): void;
}

const FIRST_ALLOWANCE = 2;
/** Attempts that an account may have under way in a room, however crowded it is. */
const LEAST = 2;

/**
 * Decides who may try a delivery now. Slow origins have a room of their own, so they take no place from those that
 * answer; so do new ones, until they have answered once. Within each room an account may have as many attempts
 * under way as places are free (the dynamic threshold of Choudhury and Hahne, "Dynamic queue length thresholds for
 * shared-memory packet switches", 1998): alone half of the room, n accounts 1/(n+1) each, so a new one always finds
 * a place.
 */
export function createRoom() {
  const origins = new Map<string, Origin>();
  const rooms = {
    new: createShares(CAPACITY.new),
    prompt: createShares(CAPACITY.prompt),
    slow: createShares(CAPACITY.slow),
  };

  function originOf(name: string, account: string): Origin {
    const known = origins.get(name);
    if (known) return known;
    const made: Origin = { standing: 'new', allowance: FIRST_ALLOWANCE, running: 0, account };
    origins.set(name, made);
    if (origins.size > REMEMBERED) forgetOne();
    return made;
  }

  /** Forgets the origin that has been known longest without attempts under way. */
  function forgetOne() {
    for (const [name, { running }] of origins) {
      if (running > 0) continue;
      origins.delete(name);
      return;
    }
  }

  const isClosed = (origin: Origin | undefined, account: string) =>
    (origin !== undefined && origin.running >= origin.allowance) ||
    !rooms[origin?.standing ?? 'new'].has(account);

  return {
    /** Returns whether an attempt for the account may begin at the origin. */
    admits: (origin: string, account: string) => !isClosed(origins.get(origin), account),

    standing: (origin: string): Standing => origins.get(origin)?.standing ?? 'new',

    /** Takes a place, admitted or not. */
    enter(name: string, account: string): Stay {
      const origin = originOf(name, account);
      origin.account = account;
      origin.running++;
      let inRoom = origin.standing;
      rooms[inRoom].take(account);
      let timer: NodeJS.Timeout | undefined;
      let late = false;
      let left = false;
      const isLate = () => {
        late = true;
        origin.standing = 'slow';
        origin.allowance = PER_ORIGIN;
        if (inRoom === 'slow') return;
        // Full or not: the other rooms must empty quickly, and their rate bounds what can gather here.
        rooms[inRoom].give(account);
        inRoom = 'slow';
        rooms.slow.take(account);
      };
      /** A late check shows that this process stood still, so answers that came meanwhile are read first. */
      const waitFor = (look: (lateMs: number) => void) => {
        const due = performance.now() + GRACE_MS;
        timer = setTimeout(() => look(performance.now() - due), GRACE_MS);
      };
      return {
        begin() {
          waitFor((lateMs) => (lateMs > GRACE_MS ? waitFor(isLate) : isLate()));
        },
        leave() {
          if (left) return;
          left = true;
          clearTimeout(timer);
          rooms[inRoom].give(account);
          origin.running--;
          if (timer === undefined || late) return;
          origin.standing = 'prompt';
          origin.allowance = Math.min(PER_ORIGIN, origin.allowance * 2);
        },
      };
    },

    /** Returns whether half of the places that empty quickly are taken. */
    crowded: () => rooms.new.taken() + rooms.prompt.taken() >= (CAPACITY.new + CAPACITY.prompt) / 2,

    /** Returns the origins at which nothing may begin now, without unknown ones. */
    closed(): string[] {
      return [...origins].filter(([, origin]) => isClosed(origin, origin.account)).map(([name]) => name);
    },
  };
}

function createShares(capacity: number) {
  const accounts = new Map<string, number>();
  let taken = 0;
  return {
    taken: () => taken,
    has: (account: string) => (accounts.get(account) ?? 0) < Math.max(LEAST, capacity - taken),
    take(account: string) {
      taken++;
      accounts.set(account, (accounts.get(account) ?? 0) + 1);
    },
    give(account: string) {
      taken--;
      const left = (accounts.get(account) ?? 1) - 1;
      if (left > 0) accounts.set(account, left);
      else accounts.delete(account);
    },
  };
}
