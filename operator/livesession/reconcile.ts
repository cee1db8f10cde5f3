import { fromEndReason, type SessionEndReason } from '@semblance/common/live-session';
import type { LiveSession, LiveSessionStatus } from '@semblance/crds/gen/livesessions';
import { EndReason, SessionState, type SessionStatus } from '@semblance/proto/semblance/live/v1/live';
import type { AgentFate, EventNote } from '../renderjob/types.ts';
import { type Holding, isActive, type Place } from './slot-book.ts';
import {
  ALLOCATED_BY,
  haveMoved,
  isStanding,
  isTold,
  type Phase,
  readyReasonOf,
  type StatusChange,
  statusWith,
  timeToLive,
} from './status.ts';

/** A session at a place, with the fate of the process there. */
export interface Whereabouts extends Holding {
  /** `connected`: the process does not hold what it does not report. */
  readonly fate: AgentFate;
}

export interface SessionSnapshot {
  /** Undefined when there is no such LiveSession. */
  readonly session: LiveSession | undefined;
  /** Unix milliseconds. */
  readonly now: number;
  /** All places that hold the session or may hold it. */
  readonly holdings: readonly Whereabouts[];
  /** Fate of the agent that the LiveSession names. */
  readonly fate: AgentFate;
  /** How long that agent has been unreachable, in ms. */
  readonly unreachableForMs: number;
  /** Milliseconds until figures may be written again; 0: at once. */
  readonly figuresDueInMs: number;
}

export type Action =
  /** Makes the agent end the session. */
  | { readonly type: 'end'; readonly place: Place; readonly reason: EndReason }
  | {
      readonly type: 'status';
      readonly status: LiveSessionStatus;
      /** Nobody waits for this write, so it may be delayed. */
      readonly idle: boolean;
      readonly event?: EventNote;
    }
  | { readonly type: 'delete' };

export interface Decision {
  readonly actions: readonly Action[];
  /** Delay until the next look if nothing happens, in ms. */
  readonly requeueAfterMs?: number;
}

const NOTHING: Decision = { actions: [] };
const UNREACHABLE = 'AgentUnreachable';

/**
 * How long an agent must be unreachable before the status says so, in ms. A stream that breaks and is reopened is
 * not worth a write.
 */
export const UNREACHABLE_AFTER_MS = 3_000;
/** Interval at which an unreachable process is checked, in ms. A Lease that lapses makes no event. */
const UNREACHABLE_EVERY_MS = 2_000;

/**
 * Decides what to do next for the LiveSession of one name and for what agents hold under it. Pure: the same
 * snapshot gives the same decision, and what was not carried out is decided again.
 */
export function reconcile(snapshot: SessionSnapshot): Decision {
  const decision = decide(snapshot);
  if (decision.actions.length > 0 || !isOutOfReach(snapshot)) return decision;
  const { requeueAfterMs = UNREACHABLE_EVERY_MS } = decision;
  return { actions: [], requeueAfterMs: Math.min(requeueAfterMs, UNREACHABLE_EVERY_MS) };
}

function decide(snapshot: SessionSnapshot): Decision {
  const { session, now } = snapshot;
  const ends = strays(snapshot);
  if (ends.length > 0) return { actions: ends };
  if (!session || session.metadata.deletionTimestamp) return NOTHING;
  const left = timeToLive(session, now);
  if (left !== undefined)
    return left > 0 ? { actions: [], requeueAfterMs: left } : { actions: [{ type: 'delete' }] };
  return decideStanding(snapshot, session);
}

/** Returns whether progress needs a process that is unreachable, or proof that it is gone. */
function isOutOfReach({ session, fate, holdings }: SessionSnapshot): boolean {
  if (session && isStanding(session) && fate === 'unreachable') return true;
  return holdings.some(
    (holding) => !holding.claimed && !holding.over && holding.fate === 'unreachable' && isOpen(holding),
  );
}

const isOpen = ({ doomed, report }: Holding) => doomed || isActive(report);

/**
 * Ends the session wherever it should not be: its LiveSession was deleted, has ended, names another place, or never
 * existed.
 */
function strays({ session, holdings }: SessionSnapshot): Action[] {
  return holdings
    .filter(({ claimed, over, doomed, report, fate, place }) => {
      if (claimed || over || fate !== 'connected') return false;
      const wanted = session && isStanding(session) && isAt(session, place);
      return doomed || (isActive(report) && !wanted);
    })
    .map(({ place }) => ({ type: 'end', place, reason: EndReason.END_REASON_CANCELLED }));
}

const isAt = ({ spec }: LiveSession, place: Place) =>
  spec.agent === place.agent && spec.incarnation === place.incarnation;

function decideStanding(snapshot: SessionSnapshot, session: LiveSession): Decision {
  const { holdings, fate } = snapshot;
  const { agent } = session.spec;
  const here = holdings.find(({ place }) => isAt(session, place));
  const report = here?.report;
  if (report && !isActive(report)) return end(snapshot, session, report, endOf(report));
  const allocated = session.metadata.annotations?.[ALLOCATED_BY] !== undefined;
  if (!allocated && !isTold(session) && !report) {
    return end(snapshot, session, report, {
      conditionReason: 'NotAllocated',
      reason: 'cancelled',
      message: 'It was not made by the operator and holds no slot. Sessions are opened over the API.',
    });
  }
  if (fate === 'replaced' || fate === 'lost') {
    const how =
      fate === 'replaced' ? 'another process of it has registered' : 'its Lease has lapsed or was released';
    const message = `The process of ${agent} that carried it is gone: ${how}.`;
    return end(snapshot, session, report, { conditionReason: 'AgentLost', reason: 'render_failed', message });
  }
  if (here?.over || (fate === 'connected' && !report && !here?.claimed)) {
    const streamed = session.status?.startedAt !== undefined;
    return end(snapshot, session, report, {
      conditionReason: streamed ? 'Closed' : 'NoStream',
      reason: streamed ? undefined : 'no_stream',
      message: `${agent} no longer knows it: it ended while no operator watched.`,
    });
  }
  if (fate === 'unreachable' && readyReasonOf(session) === UNREACHABLE) return NOTHING;
  const progressed = report ? progress(snapshot, session, report) : NOTHING;
  return fate === 'unreachable' && progressed.actions.length === 0
    ? unreachable(snapshot, session)
    : progressed;
}

/** Reports that the agent is unreachable. The session may go on there unnoticed by its client. */
function unreachable({ now, unreachableForMs }: SessionSnapshot, session: LiveSession): Decision {
  if (!isTold(session)) return NOTHING;
  const left = UNREACHABLE_AFTER_MS - unreachableForMs;
  if (left > 0) return { actions: [], requeueAfterMs: left };
  const { agent } = session.spec;
  const status = statusWith(session, now, {
    phase: session.status?.phase ?? 'Bound',
    conditionReason: UNREACHABLE,
    ready: 'Unknown',
    message: `The operator cannot reach ${agent}, which carries it; it ends when the Lease of ${agent} lapses.`,
  });
  const note = `Nothing is heard of ${agent}, which carries it.`;
  const event = { type: 'Warning', reason: UNREACHABLE, action: 'Watch', note } as const;
  return { actions: [{ type: 'status', status, idle: false, event }] };
}

type End = Pick<StatusChange, 'conditionReason' | 'message' | 'reason'>;

function end(
  { now }: SessionSnapshot,
  session: LiveSession,
  report: SessionStatus | undefined,
  how: End,
): Decision {
  const status = statusWith(session, now, { phase: 'Ended', report, ...how });
  const bad = ['RenderFailed', 'AgentLost', 'NotAllocated'].includes(how.conditionReason);
  const note = `${how.message} ${status.streamedSeconds ?? 0} s were streamed.`;
  const event = {
    type: bad ? 'Warning' : 'Normal',
    reason: how.conditionReason,
    action: 'End',
    note,
  } as const;
  return { actions: [{ type: 'status', status, idle: false, event }] };
}

const ENDS: Readonly<Record<SessionEndReason | 'closed', readonly [reason: string, message: string]>> = {
  closed: ['Closed', 'The client closed it.'],
  session_limit_reached: ['SessionLimitReached', 'The seconds that were granted are used up.'],
  no_stream: ['NoStream', 'Nothing was ever streamed: nobody connected in time, or no media came.'],
  render_failed: [
    'RenderFailed',
    'The engine of its agent failed, or its content check did not work; the log of the agent says why.',
  ],
  timed_out: ['TimedOut', 'The client was silent or read nothing for too long.'],
  cancelled: ['Cancelled', 'It was ended on request.'],
};

function endOf(report: SessionStatus): End {
  const reason = fromEndReason(report.reason);
  if (report.goingAway) {
    const message = 'Its agent was ended, and gave it time to end before.';
    return { conditionReason: 'AgentDrained', message, reason };
  }
  if (report.rejected) {
    const message = `A content check rejected what it was opened with: ${report.rejected}`;
    return { conditionReason: 'ContentRejected', message, reason };
  }
  if (report.fault) {
    const message = `The gateway closed it for what its client sent (${report.fault}).`;
    return { conditionReason: 'Closed', message, reason };
  }
  const [conditionReason, message] = ENDS[reason ?? 'closed'];
  return { conditionReason, message, reason };
}

const PHASES: Readonly<Partial<Record<SessionState, Exclude<Phase, 'Ended'>>>> = {
  [SessionState.SESSION_STATE_CLAIMED]: 'Bound',
  [SessionState.SESSION_STATE_CONNECTED]: 'Connected',
  [SessionState.SESSION_STATE_STREAMING]: 'Streaming',
};

function progress(
  { now, figuresDueInMs }: SessionSnapshot,
  session: LiveSession,
  report: SessionStatus,
): Decision {
  const phase = PHASES[report.state];
  if (!phase) return NOTHING;
  const turned =
    session.status?.phase !== phase || !isTold(session) || readyReasonOf(session) === UNREACHABLE;
  if (!turned) {
    if (!haveMoved(session, report)) return NOTHING;
    if (figuresDueInMs > 0) return { actions: [], requeueAfterMs: figuresDueInMs };
  }
  const { agent } = session.spec;
  const message = {
    Bound: `Holds a slot of ${agent}; nobody has connected yet.`,
    Connected: `A client is connected by way of ${agent}; nothing has been converted yet.`,
    Streaming: `${agent} converts its media.`,
  }[phase];
  const status = statusWith(session, now, { phase, conditionReason: phase, message, report });
  const event = {
    type: 'Normal',
    reason: 'Bound',
    action: 'Bind',
    note: `Bound to a slot of ${agent}.`,
  } as const;
  const first = !isTold(session);
  return {
    actions: [{ type: 'status', status, idle: phase === 'Bound', ...(first && { event }) }],
  };
}
