import type { SessionEndReason } from '@semblance/common/live-session';
import type { LiveSession, LiveSessionStatus } from '@semblance/crds/gen/livesessions';
import type { SessionStatus } from '@semblance/proto/semblance/live/v1/live';
import { withCondition } from '../conditions.ts';

/** Annotation of LiveSessions that an operator created: its identity. */
export const ALLOCATED_BY = 'semblance.dev/allocated-by';

export type Phase = NonNullable<LiveSessionStatus['phase']>;

/** How long an ended session is kept by default, in seconds. */
const DEFAULT_TTL = 600;

export const isEnded = ({ status }: LiveSession): boolean => status?.phase === 'Ended';

/** Returns whether the session goes on: neither ended nor deleted. */
export const isStanding = (session: LiveSession): boolean =>
  !isEnded(session) && session.metadata.deletionTimestamp === undefined;

/** Returns whether an operator has written the status; the API server fills in only the phase. */
export const isTold = ({ status }: LiveSession): boolean => (status?.conditions?.length ?? 0) > 0;

/** Returns the reason of the condition Ready, or an empty string. */
export const readyReasonOf = ({ status }: LiveSession): string =>
  status?.conditions?.find(({ type }) => type === 'Ready')?.reason ?? '';

/** Returns the milliseconds until the session is to be deleted; undefined: it has not ended. */
export function timeToLive(session: LiveSession, now: number): number | undefined {
  if (!isEnded(session)) return undefined;
  const { ttlSecondsAfterFinished: ttl = DEFAULT_TTL } = session.spec;
  const since = Date.parse(session.status?.endedAt ?? session.metadata.creationTimestamp ?? '');
  return since + ttl * 1000 - now;
}

export interface StatusChange {
  readonly phase: Phase;
  /** Reason of the condition Ready. */
  readonly conditionReason: string;
  /** Status of the condition Ready. Default: False for an ended session, otherwise True. */
  readonly ready?: 'Unknown';
  readonly message: string;
  readonly reason?: SessionEndReason | undefined;
  readonly report?: SessionStatus | undefined;
}

/** Returns the status after the change, with the figures of the report. */
export function statusWith(session: LiveSession, now: number, change: StatusChange): LiveSessionStatus {
  const { phase, conditionReason, ready, message, reason, report } = change;
  const before = session.status ?? {};
  const observedGeneration = session.metadata.generation;
  const startedAt = before.startedAt ?? startOf(report, now);
  return {
    ...before,
    ...(report && figuresOf(report)),
    ...(startedAt && { startedAt }),
    ...(phase === 'Ended' && { endedAt: new Date(now).toISOString(), ...(reason && { reason }) }),
    phase,
    observedGeneration,
    conditions: withCondition(
      before.conditions,
      {
        type: 'Ready',
        status: ready ?? (phase === 'Ended' ? 'False' : 'True'),
        reason: conditionReason,
        message,
        observedGeneration,
      },
      now,
    ),
  };
}

function startOf(report: SessionStatus | undefined, now: number): string | undefined {
  return report && report.converted > 0n
    ? new Date(now - Number(report.streamedMs)).toISOString()
    : undefined;
}

export interface Figures {
  readonly streamedSeconds: number;
  readonly received: number;
  readonly converted: number;
  readonly dropped: number;
}

function figuresOf({ streamedMs, received, converted, dropped }: SessionStatus): Figures {
  return {
    streamedSeconds: Math.round(Number(streamedMs) / 1000),
    received: Number(received),
    converted: Number(converted),
    dropped: Number(dropped),
  };
}

export function haveMoved({ status }: LiveSession, report: SessionStatus): boolean {
  return Object.entries(figuresOf(report)).some(
    ([name, value]) => value !== (status?.[name as keyof Figures] ?? 0),
  );
}
