import { timingSafeEqual } from 'node:crypto';
import type { SessionEndReason } from '@semblance/common/live-session';
import type { LiveCapability } from '@semblance/engine-api/live-engine';
import { createRemembered } from '../../remembered.ts';

/**
 * claimed: a slot is held. connected: its relay is connected. streaming: converted media was sent. ended: the slot
 * is free.
 */
export type SessionState = 'claimed' | 'connected' | 'streaming' | 'ended';

/** A live session as the agent holds it. Times are ms of a monotonic clock. */
export interface LiveSession {
  readonly id: string;
  readonly capability: LiveCapability;
  readonly state: SessionState;
  /** Time from the first to the last converted message sent, in ms. */
  readonly streamedMs: number;
  readonly received: number;
  readonly converted: number;
  readonly dropped: number;
  /** Set when the end has begun. An undefined `reason` means that the caller closed it. */
  readonly end: SessionEnd | undefined;
}

export interface SessionEnd {
  readonly reason: SessionEndReason | undefined;
  /** Plain text for the close frame of the client's WebSocket. */
  readonly message: string;
  /** Whether the agent process ends, and the session with it through no fault of its own. */
  readonly goingAway?: boolean;
  /** Fault of the client for which the gateway closed its WebSocket. */
  readonly fault?: string;
  /** Why a content check rejected the inputs of the session, for the caller. */
  readonly rejected?: string;
}

export interface SessionClaim {
  readonly id: string;
  readonly capability: LiveCapability;
  readonly ticketSha256: Uint8Array;
  readonly connectDeadlineMs: number;
  readonly maxDurationMs: number;
}

export type ClaimRefusal = 'ended' | 'draining' | 'no-slot' | 'other-ticket';

export type ClaimDecision =
  | { readonly kind: 'begin'; readonly session: LiveSession }
  /** The same session was claimed before; give the same answer. */
  | { readonly kind: 'known' }
  | { readonly kind: 'refused'; readonly why: ClaimRefusal; readonly message: string };

export type ConnectDecision = 'connected' | 'unknown' | 'ended' | 'wrong-ticket' | 'taken';

export interface SessionTableLimits {
  /** Time for which an ended session is still reported, in ms. */
  readonly toldMs: number;
  /** Most ended sessions that are still reported. */
  readonly told: number;
  /** Least number of ended sessions that are remembered, so that they are never claimed again. */
  readonly tombstones: number;
  /** Time for which every ended session is remembered, in ms. */
  readonly tombstoneMs: number;
  /** Longest time of a connected session without a converted message, in ms. */
  readonly idleMs: number;
  /**
   * Time beyond the grant for which converted media may flow, in ms. The gateway, which counts for the bill, stops
   * them earlier.
   */
  readonly overtimeMs: number;
}

export const DEFAULT_SESSION_LIMITS: SessionTableLimits = {
  toldMs: 120_000,
  told: 2_000,
  tombstones: 10_000,
  tombstoneMs: 3_600_000,
  idleMs: 120_000,
  overtimeMs: 5_000,
};

/** The agent's live sessions and the rules for them, without clock or I/O. */
export interface SessionTable {
  /** @param capacity sessions of the capability that fit at the moment */
  claim(claim: SessionClaim, now: { capacity: number; draining: boolean; at: number }): ClaimDecision;
  /** Admits the only relay of a session. */
  connect(id: string, ticketSha256: Uint8Array, at: number): ConnectDecision;
  received(id: string): void;
  dropped(id: string): void;
  /** Records that a converted message was sent. Returns true for the first one. */
  converted(id: string, at: number): boolean;
  /**
   * Begins the end; the first reason counts. `ending`: the caller must end the session and then call `ended`.
   * `over`: there is nothing to end, and the session can never be claimed again.
   */
  ending(id: string, end: SessionEnd, at: number): 'ending' | 'over';
  /** Frees the slot. */
  ended(id: string, at: number): void;
  /** Returns the sessions whose time is up, each with its ending. */
  due(at: number): { readonly id: string; readonly end: SessionEnd }[];
  /** Returns when to call `due` again, never later than the next deadline; undefined when nothing is pending. */
  nextDue(): number | undefined;
  get(id: string): LiveSession | undefined;
  list(): LiveSession[];
  /** Returns the sessions of a capability whose slots are taken, including ending ones. */
  held(capability?: LiveCapability): LiveSession[];
}

interface Entry extends SessionClaim {
  state: SessionState;
  received: number;
  converted: number;
  dropped: number;
  readonly claimedAt: number;
  connectedAt: number | undefined;
  firstAt: number | undefined;
  lastAt: number;
  end: SessionEnd | undefined;
  endedAt: number;
  readonly streamedMs: number;
}

export function createSessionTable(limits: SessionTableLimits = DEFAULT_SESSION_LIMITS): SessionTable {
  const entries = new Map<string, Entry>();
  /** Ended sessions, which are never claimed again. */
  const tombstones = createRemembered<true>(limits.tombstones, limits.tombstoneMs);

  const holds = (entry: Entry) => entry.state !== 'ended';
  const active = (id: string) => {
    const entry = entries.get(id);
    return entry && holds(entry) && !entry.end ? entry : undefined;
  };

  function forgetTold(at: number): void {
    let surplus = entries.size - table.held().length - limits.told;
    // An ended session moves behind all others, so the oldest ended ones come first.
    for (const [id, entry] of entries) {
      if (holds(entry)) continue;
      if (surplus <= 0 && at - entry.endedAt < limits.toldMs) return;
      entries.delete(id);
      surplus--;
    }
  }

  const table: SessionTable = {
    claim(claim, { capacity, draining, at }) {
      const refused = (why: ClaimRefusal, message: string) => ({ kind: 'refused', why, message }) as const;
      const known = entries.get(claim.id);
      if (tombstones.has(claim.id) || (known && (known.end || !holds(known))))
        return refused('ended', 'the session has ended here');
      if (known) {
        return equal(known.ticketSha256, claim.ticketSha256)
          ? { kind: 'known' }
          : refused('other-ticket', 'the session is held with another ticket');
      }
      if (draining) return refused('draining', 'the agent takes no new sessions');
      const taken = table.held(claim.capability).length;
      if (taken >= capacity)
        return refused('no-slot', `${taken} of ${capacity} slots for ${claim.capability} are taken`);
      forgetTold(at);
      const entry = entryOf(claim, at);
      entries.set(claim.id, entry);
      return { kind: 'begin', session: entry };
    },
    connect(id, ticketSha256, at) {
      const entry = entries.get(id);
      if (!entry) return 'unknown';
      if (!equal(entry.ticketSha256, ticketSha256)) return 'wrong-ticket';
      if (entry.connectedAt !== undefined) return 'taken';
      if (entry.end || !holds(entry)) return 'ended';
      entry.connectedAt = at;
      entry.state = 'connected';
      return 'connected';
    },
    received(id) {
      const entry = active(id);
      if (entry) entry.received++;
    },
    dropped(id) {
      const entry = active(id);
      if (entry) entry.dropped++;
    },
    converted(id, at) {
      const entry = active(id);
      if (!entry) return false;
      const first = entry.firstAt === undefined;
      entry.firstAt ??= at;
      entry.lastAt = Math.max(entry.lastAt, at);
      entry.converted++;
      entry.state = 'streaming';
      return first;
    },
    ending(id, end, at) {
      const entry = entries.get(id);
      if (entry && holds(entry)) {
        entry.end ??= end;
        return 'ending';
      }
      tombstones.set(id, true, at);
      return 'over';
    },
    ended(id, at) {
      const entry = entries.get(id);
      if (!entry || !holds(entry)) return;
      entry.state = 'ended';
      entry.end ??= { reason: undefined, message: '' };
      entry.endedAt = at;
      entries.delete(id);
      entries.set(id, entry);
      tombstones.set(id, true, at);
      forgetTold(at);
    },
    due(at) {
      return table.held().flatMap(({ id }) => {
        const entry = active(id);
        if (!entry) return [];
        const [when, end] = dueOf(entry, limits);
        return when <= at ? [{ id, end }] : [];
      });
    },
    nextDue() {
      let next: number | undefined;
      for (const entry of entries.values()) {
        if (!holds(entry) || entry.end) continue;
        const [when] = dueOf(entry, limits);
        if (next === undefined || when < next) next = when;
      }
      return next;
    },
    get: (id) => entries.get(id),
    list: () => [...entries.values()],
    held: (capability) =>
      [...entries.values()].filter(
        (entry) => holds(entry) && (capability === undefined || entry.capability === capability),
      ),
  };
  return table;
}

function entryOf(claim: SessionClaim, at: number): Entry {
  const { id, capability, ticketSha256, connectDeadlineMs, maxDurationMs } = claim;
  return {
    id,
    capability,
    connectDeadlineMs,
    maxDurationMs,
    // Copied, because the input may be a small part of a buffer that it would keep in memory.
    ticketSha256: new Uint8Array(ticketSha256),
    state: 'claimed',
    received: 0,
    converted: 0,
    dropped: 0,
    claimedAt: at,
    connectedAt: undefined,
    firstAt: undefined,
    lastAt: at,
    end: undefined,
    endedAt: 0,
    get streamedMs() {
      return this.firstAt === undefined ? 0 : this.lastAt - this.firstAt;
    },
  };
}

/** Returns when and how a session ends if nothing happens before. */
function dueOf(entry: Entry, limits: SessionTableLimits): readonly [at: number, end: SessionEnd] {
  if (entry.connectedAt === undefined) {
    const end: SessionEnd = { reason: 'no_stream', message: 'nobody connected in time' };
    return [entry.claimedAt + entry.connectDeadlineMs, end];
  }
  const idle: readonly [number, SessionEnd] = [
    (entry.firstAt === undefined ? entry.connectedAt : entry.lastAt) + limits.idleMs,
    { reason: 'timed_out', message: 'no media flowed for too long' },
  ];
  if (entry.firstAt === undefined) return idle;
  const limit: readonly [number, SessionEnd] = [
    entry.firstAt + entry.maxDurationMs + limits.overtimeMs,
    { reason: 'session_limit_reached', message: 'the granted time is used up' },
  ];
  return idle[0] < limit[0] ? idle : limit;
}

/** Compares in constant time. */
function equal(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}
