import type { LiveSession, LiveSessionStatus } from '@semblance/crds/gen/livesessions';
import { EndReason, SessionState, type SessionStatus } from '@semblance/proto/semblance/live/v1/live';
import { describe, expect, it } from 'vitest';
import { reconcile, type SessionSnapshot, UNREACHABLE_AFTER_MS, type Whereabouts } from './reconcile.ts';
import { ALLOCATED_BY } from './status.ts';

const NOW = Date.parse('2026-01-01T00:10:00.000Z');
const ago = (seconds: number) => new Date(NOW - seconds * 1000).toISOString();
const place = { agent: 'one', incarnation: 'i1' };
const elsewhere = { agent: 'two', incarnation: 'j1' };
const {
  SESSION_STATE_CLAIMED: CLAIMED,
  SESSION_STATE_CONNECTED: CONNECTED,
  SESSION_STATE_STREAMING: STREAMING,
  SESSION_STATE_ENDED: ENDED,
} = SessionState;

const told = (phase: LiveSessionStatus['phase'], more: LiveSessionStatus = {}): LiveSessionStatus => ({
  phase,
  conditions: [
    { type: 'Ready', status: 'True', reason: phase ?? '', message: 'm', lastTransitionTime: ago(20) },
  ],
  ...more,
});

function sessionOf(
  status: LiveSessionStatus | undefined = { phase: 'Bound' },
  more: { metadata?: object; spec?: object } = {},
): LiveSession {
  return {
    apiVersion: 'semblance.dev/v1alpha1',
    kind: 'LiveSession',
    metadata: {
      name: 's',
      namespace: 'ns',
      uid: 'u',
      generation: 1,
      creationTimestamp: ago(30),
      annotations: { [ALLOCATED_BY]: 'op' },
      ...more.metadata,
    },
    spec: { capability: 'voice', ...place, maxDurationSeconds: 60, ...more.spec },
    status,
  };
}

const reportOf = (state: SessionState, more: Partial<SessionStatus> = {}): SessionStatus => ({
  sessionId: 's',
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
  ...more,
});

const holding = (report?: SessionStatus, more: Partial<Whereabouts> = {}): Whereabouts => ({
  session: 's',
  place,
  capability: 'voice',
  claimed: false,
  bound: true,
  doomed: false,
  over: false,
  report,
  fate: 'connected',
  ...more,
});

/** Returns the decision in a short form. */
function decide(
  session: LiveSession | undefined,
  holdings: readonly Whereabouts[] = [],
  more: Partial<SessionSnapshot> = {},
) {
  const due = { figuresDueInMs: 0, unreachableForMs: 0 };
  const snapshot = { session, now: NOW, holdings, fate: 'connected', ...due, ...more } as const;
  const { actions, requeueAfterMs } = reconcile(snapshot);
  const short = actions.map((action) => {
    if (action.type === 'end') return `end at ${action.place.agent}`;
    if (action.type === 'delete') return 'delete';
    const ready = action.status.conditions?.[0];
    return `${action.status.phase}/${ready?.status}/${ready?.reason}/${action.status.reason ?? ''}`;
  });
  const write = actions.find((action) => action.type === 'status');
  return { short, write, status: write?.status, requeueAfterMs };
}

describe('a session that stands', () => {
  it.each([
    [CLAIMED, 'Bound', true],
    [CONNECTED, 'Connected', false],
    [STREAMING, 'Streaming', false],
  ] as const)('is told as its agent tells it: %s', (state, phase, idle) => {
    const { short, write } = decide(sessionOf(), [holding(reportOf(state))]);
    expect(short).toEqual([`${phase}/True/${phase}/`]);
    expect(write?.idle).toBe(idle);
    expect(write?.event).toMatchObject({ reason: 'Bound', note: 'Bound to a slot of one.' });
  });

  it('is written when its phase changes, and no event is made twice', () => {
    const { short, write } = decide(sessionOf(told('Connected')), [holding(reportOf(STREAMING))]);
    expect(short).toEqual(['Streaming/True/Streaming/']);
    expect(write?.event).toBeUndefined();
  });

  it('is not written when nothing has changed', () => {
    const figures = { streamedSeconds: 4, received: 10, converted: 9, dropped: 1 };
    const report = reportOf(STREAMING, { streamedMs: 4_321n, received: 10n, converted: 9n, dropped: 1n });
    expect(decide(sessionOf(told('Streaming', figures)), [holding(report)]).short).toEqual([]);
    expect(decide(sessionOf(told('Bound')), [holding(reportOf(CLAIMED))]).short).toEqual([]);
  });

  it('says when nothing has been heard of its agent for a while, once, and when it is heard again', () => {
    const streaming = sessionOf(told('Streaming'));
    const away = holding(reportOf(STREAMING), { fate: 'unreachable' });
    const of = (session: LiveSession, unreachableForMs: number) =>
      decide(session, [away], { fate: 'unreachable', unreachableForMs });
    expect(of(streaming, 500)).toMatchObject({ short: [], requeueAfterMs: 2_000 });
    expect(of(streaming, UNREACHABLE_AFTER_MS - 100)).toMatchObject({ short: [], requeueAfterMs: 100 });
    const { short, write, status } = of(streaming, UNREACHABLE_AFTER_MS);
    expect(short).toEqual(['Streaming/Unknown/AgentUnreachable/']);
    expect(write?.event).toMatchObject({ type: 'Warning', reason: 'AgentUnreachable' });
    const silent = sessionOf(status);
    expect(of(silent, 60_000)).toMatchObject({ short: [], requeueAfterMs: 2_000 });
    expect(decide(silent, [holding(reportOf(STREAMING))]).short).toEqual(['Streaming/True/Streaming/']);
    expect(decide(silent, [away], { fate: 'lost' }).short).toEqual(['Ended/False/AgentLost/render_failed']);
    // An earlier report is written all the same. An unreported slot is not worth a write.
    expect(of(sessionOf(told('Connected')), 60_000).short).toEqual(['Streaming/True/Streaming/']);
    expect(decide(sessionOf(), [], { fate: 'unreachable', unreachableForMs: 60_000 }).short).toEqual([]);
  });

  it('has its figures written when they have moved and the last write is long enough ago', () => {
    const report = reportOf(STREAMING, { streamedMs: 12_600n, received: 9n, converted: 8n });
    const session = sessionOf(told('Streaming', { streamedSeconds: 2, received: 3, converted: 3 }));
    expect(decide(session, [holding(report)], { figuresDueInMs: 4_000 })).toMatchObject({
      short: [],
      requeueAfterMs: 4_000,
    });
    const { status } = decide(session, [holding(report)]);
    expect(status).toMatchObject({ streamedSeconds: 13, received: 9, converted: 8, dropped: 0 });
    expect(status?.startedAt).toBe(new Date(NOW - 12_600).toISOString());
    expect(status?.conditions?.[0]?.lastTransitionTime).toBe(ago(20));
  });

  it('is left alone while nothing can be known of it, and looked at again', () => {
    const unknown = decide(sessionOf(), [], { fate: 'unreachable' });
    expect(unknown).toMatchObject({ short: [], requeueAfterMs: 2_000 });
    expect(decide(sessionOf(), [holding(undefined, { claimed: true })]).short).toEqual([]);
    const lagging = holding(reportOf(STREAMING), { fate: 'unreachable' });
    expect(decide(sessionOf(told('Streaming')), [lagging], { fate: 'unreachable' }).short).toEqual([]);
  });
});

describe('a session that ends', () => {
  it.each([
    [EndReason.END_REASON_UNSPECIFIED, 'Closed', ''],
    [EndReason.END_REASON_SESSION_LIMIT_REACHED, 'SessionLimitReached', 'session_limit_reached'],
    [EndReason.END_REASON_NO_STREAM, 'NoStream', 'no_stream'],
    [EndReason.END_REASON_RENDER_FAILED, 'RenderFailed', 'render_failed'],
    [EndReason.END_REASON_TIMED_OUT, 'TimedOut', 'timed_out'],
    [EndReason.END_REASON_CANCELLED, 'Cancelled', 'cancelled'],
  ])('says why: %s', (reason, condition, word) => {
    const report = reportOf(ENDED, { reason, streamedMs: 59_999n, converted: 7n });
    const { short, status, write } = decide(sessionOf(told('Streaming')), [holding(report)]);
    expect(short).toEqual([`Ended/False/${condition}/${word}`]);
    expect(status).toMatchObject({ streamedSeconds: 60, converted: 7, endedAt: ago(0) });
    expect(write?.event).toMatchObject({
      type: word === 'render_failed' ? 'Warning' : 'Normal',
      reason: condition,
    });
  });

  it('says that it was closed for what its client sent', () => {
    const fault = 'too_fast: more than 500 messages a second';
    const { short, status, write } = decide(sessionOf(told('Streaming')), [
      holding(reportOf(ENDED, { fault })),
    ]);
    expect(short).toEqual(['Ended/False/Closed/']);
    const message = `The gateway closed it for what its client sent (${fault}).`;
    expect(status?.conditions?.[0]?.message).toBe(message);
    expect(write?.event).toMatchObject({ type: 'Normal', reason: 'Closed' });
    const closed = decide(sessionOf(told('Streaming')), [holding(reportOf(ENDED))]);
    expect(closed.status?.conditions?.[0]?.message).toBe('The client closed it.');
  });

  it('says why a content check rejected what it was opened with', () => {
    const report = reportOf(ENDED, { rejected: 'Not of this person.' });
    const { short, status, write } = decide(sessionOf(told('Connected')), [holding(report)]);
    expect(short).toEqual(['Ended/False/ContentRejected/']);
    const message = 'A content check rejected what it was opened with: Not of this person.';
    expect(status?.conditions?.[0]?.message).toBe(message);
    expect(write?.event).toMatchObject({ type: 'Normal', reason: 'ContentRejected' });
  });

  it('says that its agent was drained', () => {
    const report = reportOf(ENDED, { reason: EndReason.END_REASON_CANCELLED, goingAway: true });
    const { short, write } = decide(sessionOf(told('Streaming')), [holding(report)]);
    expect(short).toEqual(['Ended/False/AgentDrained/cancelled']);
    expect(write?.event?.type).toBe('Normal');
  });

  it.each(['replaced', 'lost'] as const)('is lost with the process that carried it: %s', (fate) => {
    const report = reportOf(STREAMING, { streamedMs: 3_000n, converted: 3n });
    const { short, status } = decide(sessionOf(told('Streaming')), [holding(report, { fate })], { fate });
    expect(short).toEqual(['Ended/False/AgentLost/render_failed']);
    // The figures come from the last report.
    expect(status?.streamedSeconds).toBe(3);
    expect(decide(sessionOf(), [], { fate }).short).toEqual(['Ended/False/AgentLost/render_failed']);
  });

  it('had ended by itself before its process went: that is why', () => {
    const report = reportOf(ENDED, { reason: EndReason.END_REASON_TIMED_OUT });
    const { short } = decide(sessionOf(told('Streaming')), [holding(report)], { fate: 'lost' });
    expect(short).toEqual(['Ended/False/TimedOut/timed_out']);
  });

  it('unwatched is told as far as is known', () => {
    expect(decide(sessionOf(told('Bound')), [holding(undefined)]).short).toEqual([
      'Ended/False/NoStream/no_stream',
    ]);
    expect(decide(sessionOf(told('Streaming', { startedAt: ago(9) })), []).short).toEqual([
      'Ended/False/Closed/',
    ]);
  });

  it('was made by hand: at once, wherever it says it is', () => {
    const byHand = (spec = {}) => sessionOf({ phase: 'Bound' }, { metadata: { annotations: {} }, spec });
    for (const fate of ['connected', 'unreachable', 'replaced', 'lost'] as const) {
      expect(decide(byHand(), [holding(undefined)], { fate }).short).toEqual([
        'Ended/False/NotAllocated/cancelled',
      ]);
    }
    // The LiveSession was restored from a backup while its agent goes on.
    expect(decide(byHand(), [holding(reportOf(STREAMING))]).short).toEqual(['Streaming/True/Streaming/']);
  });

  it('is kept for its time and then deleted', () => {
    const ended = (seconds: number) => told('Ended', { endedAt: ago(seconds) });
    expect(decide(sessionOf(ended(500)))).toMatchObject({ short: [], requeueAfterMs: 100_000 });
    expect(decide(sessionOf(ended(600))).short).toEqual(['delete']);
    expect(decide(sessionOf(ended(1), { spec: { ttlSecondsAfterFinished: 0 } })).short).toEqual(['delete']);
  });
});

describe('what an agent holds', () => {
  const active = holding(reportOf(STREAMING));

  it.each<[string, LiveSession | undefined, Whereabouts]>([
    ['of no LiveSession', undefined, active],
    [
      'of one that is being deleted',
      sessionOf(told('Streaming'), { metadata: { deletionTimestamp: ago(1) } }),
      active,
    ],
    ['of one that has ended', sessionOf(told('Ended', { endedAt: ago(1) })), active],
    ['of one that is elsewhere', sessionOf(undefined, { spec: elsewhere }), active],
    ['and may hold after a claim without an answer', undefined, holding(undefined, { doomed: true })],
    ['and is to be ended though a LiveSession came late', sessionOf(), { ...active, doomed: true }],
  ])('%s is ended', (_, session, held) => {
    expect(decide(session, [held]).short).toEqual(['end at one']);
  });

  it('is left alone while it is being claimed, when it is over, and when the agent cannot be asked', () => {
    expect(decide(undefined, [{ ...active, claimed: true }]).short).toEqual([]);
    expect(decide(undefined, [{ ...active, over: true }]).short).toEqual([]);
    const unreachable = decide(undefined, [{ ...active, fate: 'unreachable' }]);
    expect(unreachable).toMatchObject({ short: [], requeueAfterMs: 2_000 });
    expect(decide(undefined, [active]).requeueAfterMs).toBeUndefined();
    expect(decide(undefined, [{ ...active, fate: 'lost' }]).short).toEqual([]);
  });

  it('at two places is ended at the wrong one, before anything is written', () => {
    const wrong = holding(reportOf(CLAIMED), { place: elsewhere });
    expect(decide(sessionOf(), [active, wrong]).short).toEqual(['end at two']);
  });
});
