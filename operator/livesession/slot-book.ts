import { SessionState, type SessionStatus } from '@semblance/proto/semblance/live/v1/live';

/** One process of an agent. */
export interface Place {
  readonly agent: string;
  readonly incarnation: string;
}

/** What is known of one session at one place. */
export interface Holding {
  readonly session: string;
  readonly place: Place;
  readonly capability: string;
  /** This operator is claiming the slot, or has it and has not yet written the LiveSession. */
  readonly claimed: boolean;
  /** A LiveSession that has not ended names the place. */
  readonly bound: boolean;
  /** The session must be ended there: it is unwanted and may be held. */
  readonly doomed: boolean;
  /** Last report of the agent. */
  readonly report: SessionStatus | undefined;
  /** The place holds no slot for it and never will again. */
  readonly over: boolean;
}

type Entry = { -readonly [Key in keyof Holding]: Holding[Key] } & {
  /** performance.now() when the agent confirmed the slot. */
  confirmedAt: number;
};

export interface SlotBookOptions {
  readonly onFreed: (capability: string, place: Place) => void;
  /** Called when the used slots at the place have changed. */
  readonly onChanged: (place: Place) => void;
}

/**
 * Record of which session holds which slot. LiveSessions, agents' reports and claims under way update it; each
 * session counts once, so counting taken slots costs nothing. A session is forgotten when none of the three names
 * it.
 */
export interface SlotBook {
  used(place: Place, capability: string): number;
  usedIn(place: Place): number;
  knows(place: Place, session: string): boolean;
  at(place: Place, session: string): Holding | undefined;
  of(session: string): Holding[];
  /** Returns the sessions at any process of the agent. */
  sessionsOn(agent: string): string[];
  claim(place: Place, session: string, capability: string): void;
  /** Records that the agent holds the slot. */
  confirm(place: Place, session: string): void;
  /** Ends the claim: it failed, or the LiveSession exists. */
  unclaim(place: Place, session: string): void;
  bind(place: Place, session: string, capability: string, bound: boolean): void;
  doom(place: Place, session: string, capability: string): void;
  /** Records that the agent does not hold the session. */
  ended(place: Place, session: string): void;
  report(place: Place, report: SessionStatus): void;
  /** Records everything that the place holds. @returns sessions known there before or after */
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
      // An end is final: an earlier report that arrives late does not undo it.
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
        // A slot given after the request for the snapshot may be missing in it. A report follows.
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

/** Returns the report expected of an agent that has just given a slot. */
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
