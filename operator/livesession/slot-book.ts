import { SessionState, type SessionStatus } from '@semblance/proto/semblance/live/v1/live';

/** A process of an agent. */
export interface Place {
  readonly agent: string;
  readonly incarnation: string;
}

/** Holds what is known of one session at one place. */
export interface Holding {
  readonly session: string;
  readonly place: Place;
  readonly capability: string;
  /** This operator is asking for the slot, or has it and has not written the LiveSession yet. */
  readonly claimed: boolean;
  /** A LiveSession that has not ended names the place. */
  readonly bound: boolean;
  /** It must be ended there: nobody wants it, and it may be held. */
  readonly doomed: boolean;
  /** Last word of the agent. */
  readonly report: SessionStatus | undefined;
  /** It holds no slot there any more and never will again. */
  readonly over: boolean;
}

type Entry = { -readonly [Key in keyof Holding]: Holding[Key] } & {
  /** performance.now() when the agent answered that the slot is held. */
  confirmedAt: number;
};

export interface SlotBookOptions {
  /** A slot became free. */
  readonly onFreed: (capability: string, place: Place) => void;
  /** Slots in use at the place changed. */
  readonly onChanged: (place: Place) => void;
}

/**
 * Holds who holds which slot: every session that a LiveSession, an agent, or a claim under way places somewhere,
 * counted once. Kept in step by each of the three, so that to ask how many slots are taken costs nothing. A session
 * is forgotten when none of them speaks of it any more.
 */
export interface SlotBook {
  used(place: Place, capability: string): number;
  usedIn(place: Place): number;
  knows(place: Place, session: string): boolean;
  at(place: Place, session: string): Holding | undefined;
  of(session: string): Holding[];
  /** At any process of the agent. */
  sessionsOn(agent: string): string[];
  claim(place: Place, session: string, capability: string): void;
  /** The agent answered that the slot is held. */
  confirm(place: Place, session: string): void;
  /** The claim came to nothing, or its LiveSession stands. */
  unclaim(place: Place, session: string): void;
  bind(place: Place, session: string, capability: string, bound: boolean): void;
  doom(place: Place, session: string, capability: string): void;
  /** The agent answered that it does not hold the session. */
  ended(place: Place, session: string): void;
  report(place: Place, report: SessionStatus): void;
  /** Everything the place holds. @returns sessions of which something was known or is known now */
  snapshot(place: Place, reports: readonly SessionStatus[], openedAt: number): Set<string>;
}

export const isActive = (report: SessionStatus | undefined): boolean =>
  report !== undefined && report.state !== SessionState.SESSION_STATE_ENDED;

export function createSlotBook(options: SlotBookOptions): SlotBook {
  const places = new Map<
    string,
    { readonly entries: Map<string, Entry>; readonly used: Map<string, number> }
  >();
  const sessions = new Map<string, Map<string, Entry>>();

  const keyOf = ({ agent, incarnation }: Place) => `${agent}/${incarnation}`;
  const isHeld = ({ over, claimed, bound, doomed, report }: Entry) =>
    !over && (claimed || bound || doomed || isActive(report));
  const isMoot = ({ over, claimed, bound, doomed, report }: Entry) =>
    !claimed && !bound && (over || (!doomed && !isActive(report)));

  function entryOf(place: Place, session: string): Entry | undefined {
    return places.get(keyOf(place))?.entries.get(session);
  }

  function change(place: Place, session: string, capability: string, edit: (entry: Entry) => void): void {
    const key = keyOf(place);
    const known = entryOf(place, session);
    const entry: Entry = known ?? {
      session,
      place,
      capability,
      claimed: false,
      bound: false,
      doomed: false,
      over: false,
      report: undefined,
      confirmedAt: Number.NEGATIVE_INFINITY,
    };
    const before = known !== undefined && isHeld(known);
    edit(entry);
    const after = isHeld(entry);
    const here = places.get(key) ?? { entries: new Map(), used: new Map() };
    if (isMoot(entry)) {
      here.entries.delete(session);
      const elsewhere = sessions.get(session);
      if (elsewhere?.delete(key) && elsewhere.size === 0) sessions.delete(session);
    } else if (!known) {
      here.entries.set(session, entry);
      sessions.set(session, (sessions.get(session) ?? new Map()).set(key, entry));
    }
    if (here.entries.size > 0) places.set(key, here);
    else places.delete(key);
    if (before === after) return;
    here.used.set(entry.capability, (here.used.get(entry.capability) ?? 0) + (after ? 1 : -1));
    options.onChanged(place);
    if (!after) options.onFreed(entry.capability, place);
  }

  function edit(place: Place, session: string, editing: (entry: Entry) => void): void {
    const entry = entryOf(place, session);
    if (entry) change(place, session, entry.capability, editing);
  }

  function report(place: Place, told: SessionStatus): void {
    change(place, told.sessionId, told.capability, (entry) => {
      // An end is final: what was told before it and comes late does not undo it.
      if (entry.over && isActive(told)) return;
      entry.report = told;
      if (!isActive(told)) entry.over = true;
    });
  }

  return {
    used: (place, capability) => places.get(keyOf(place))?.used.get(capability) ?? 0,
    usedIn(place) {
      let sum = 0;
      for (const count of places.get(keyOf(place))?.used.values() ?? []) sum += count;
      return sum;
    },
    knows: (place, session) => entryOf(place, session) !== undefined,
    at: entryOf,
    of: (session) => [...(sessions.get(session)?.values() ?? [])],
    sessionsOn: (agent) =>
      [...places].flatMap(([key, { entries }]) => (key.startsWith(`${agent}/`) ? [...entries.keys()] : [])),
    claim(place, session, capability) {
      change(place, session, capability, (entry) => {
        entry.claimed = true;
      });
    },
    confirm(place, session) {
      edit(place, session, (entry) => {
        entry.confirmedAt = performance.now();
        entry.report ??= held(session, entry.capability);
      });
    },
    unclaim(place, session) {
      edit(place, session, (entry) => {
        entry.claimed = false;
      });
    },
    bind(place, session, capability, bound) {
      if (!bound && !entryOf(place, session)) return;
      change(place, session, capability, (entry) => {
        entry.bound = bound;
      });
    },
    doom(place, session, capability) {
      change(place, session, capability, (entry) => {
        entry.claimed = false;
        entry.bound = false;
        entry.doomed = true;
      });
    },
    ended(place, session) {
      edit(place, session, (entry) => {
        entry.over = true;
      });
    },
    report,
    snapshot(place, reports, openedAt) {
      const here = places.get(keyOf(place));
      const touched = new Set(here?.entries.keys());
      const named = new Set(reports.map(({ sessionId }) => sessionId));
      for (const [session, entry] of [...(here?.entries ?? [])]) {
        // A slot that was given after the snapshot was asked for need not be in it; word of it follows.
        const mayBeMissing = entry.claimed || (entry.confirmedAt >= openedAt && isActive(entry.report));
        if (named.has(session) || mayBeMissing || !isActive(entry.report)) continue;
        edit(place, session, (gone) => {
          gone.report = undefined;
        });
      }
      for (const each of reports) {
        report(place, each);
        touched.add(each.sessionId);
      }
      return touched;
    },
  };
}

/** Returns what an agent that answered "held" would tell. */
function held(sessionId: string, capability: string): SessionStatus {
  return {
    sessionId,
    capability,
    state: SessionState.SESSION_STATE_CLAIMED,
    streamedMs: 0n,
    reason: 0,
    goingAway: false,
    fault: '',
    rejected: '',
    received: 0n,
    converted: 0n,
    dropped: 0n,
  };
}
