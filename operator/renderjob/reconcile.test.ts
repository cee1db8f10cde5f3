import { describe, expect, it } from 'vitest';
import type { RenderJob, RenderJobStatus } from '#crds/gen/renderjobs.ts';
import { AttemptState, type AttemptStatus } from '#proto/semblance/agent/v1/agent.ts';
import { type JobSnapshot, reconcile } from './reconcile.ts';
import { MAX_LOST_AGENTS } from './reconcile-active.ts';
import { FINALIZER } from './types.ts';

const NOW = Date.parse('2026-01-01T00:10:00.000Z');
const ago = (seconds: number) => new Date(NOW - seconds * 1000).toISOString();

function jobOf(
  status: RenderJobStatus | undefined,
  overrides: { spec?: Partial<RenderJob['spec']>; metadata?: Partial<RenderJob['metadata']> } = {},
): RenderJob {
  return {
    apiVersion: 'semblance.dev/v1alpha1',
    kind: 'RenderJob',
    metadata: {
      name: 'job',
      namespace: 'ns',
      uid: 'u1',
      generation: 3,
      creationTimestamp: ago(60),
      ...(status?.agent ? { finalizers: [FINALIZER] } : {}),
      ...overrides.metadata,
    },
    spec: {
      capability: 'face-swap-image',
      inputs: [],
      backoffLimit: 2,
      activeDeadlineSeconds: 100,
      ...overrides.spec,
    },
    status,
  };
}

const bound = (phase: RenderJobStatus['phase'], more: RenderJobStatus = {}): RenderJobStatus => ({
  ...{ phase, attempt: 2, agent: 'one', agentIncarnation: 'i1', startTime: ago(5) },
  ...more,
});

function report(state: AttemptState, more: Partial<AttemptStatus> = {}): AttemptStatus {
  return {
    ref: { jobUid: 'u1', attempt: 2 },
    state,
    progress: 0.5,
    stage: 'swap',
    startedAtMs: BigInt(NOW - 5_000),
    ...more,
  };
}

const { ATTEMPT_STATE_RUNNING: RUNNING, ATTEMPT_STATE_SUCCEEDED: SUCCEEDED } = AttemptState;
const { ATTEMPT_STATE_INTERRUPTED: INTERRUPTED, ATTEMPT_STATE_STOPPED: STOPPED } = AttemptState;
const { ATTEMPT_STATE_FAILED: FAILED } = AttemptState;
const output = {
  ...{ key: 'out/u1/2.jpg', contentType: 'image/jpeg', sizeBytes: 10n, sha256Hex: '' },
  ...{ unit: 'image', milliUnits: 1000n, stages: [], engine: 'e/1' },
};

/** What is decided, in short: action types, and of a status its phase and the reason of its condition. */
function decide(job: RenderJob, more: Partial<JobSnapshot> = {}) {
  const snapshot = { job, now: NOW, facts: {}, fate: 'connected', progressDue: true, ...more } as const;
  const { actions, requeueAfterMs } = reconcile(snapshot);
  const short = actions.map((action) => {
    if (action.type !== 'status') return action.type;
    const ready = action.status.conditions?.find(({ type }) => type === 'Ready');
    return `${action.status.phase}/${ready?.reason}`;
  });
  const write = actions.find((action) => action.type === 'status');
  return { short, status: write?.type === 'status' ? write.status : undefined, actions, requeueAfterMs };
}

const placement = { agent: 'one', incarnation: 'i1' };
const deleted = { metadata: { deletionTimestamp: ago(1), finalizers: [FINALIZER] } };
const suspended = { spec: { suspend: true } };

describe('reconcile', () => {
  const table: [string, RenderJob, Partial<JobSnapshot>, string[]][] = [
    ['a new job without a place waits quietly', jobOf(undefined), {}, []],
    ['a new job with a place is bound', jobOf(undefined), { placement }, ['Assigned/Assigned']],
    [
      'a waiting job says why when it is its turn',
      jobOf(undefined),
      { waiting: { reason: 'SlotsBusy', message: 'm', position: 3 } },
      ['Pending/SlotsBusy'],
    ],
    [
      'a retry is not bound before its time',
      jobOf({ phase: 'Pending', attempt: 1, retryTime: ago(-5) }),
      { placement },
      [],
    ],
    [
      'a retry is bound after its time',
      jobOf({ phase: 'Pending', attempt: 1, retryTime: ago(1) }),
      { placement },
      ['Assigned/Assigned'],
    ],
    [
      'a job nobody took in time fails',
      jobOf(undefined, { spec: { pendingDeadlineSeconds: 60 } }),
      { placement },
      ['Failed/PendingDeadlineExceeded'],
    ],
    [
      'the pending deadline is for the first agent only',
      jobOf({ phase: 'Pending', attempt: 1 }, { spec: { pendingDeadlineSeconds: 60 } }),
      { placement },
      ['Assigned/Assigned'],
    ],
    [
      'the pending deadline counts from when it was resumed',
      jobOf({ phase: 'Pending', queueTime: ago(5) }, { spec: { pendingDeadlineSeconds: 60 } }),
      {},
      [],
    ],
    ['suspended before it began', jobOf(undefined, suspended), { placement }, ['Suspended/Suspended']],
    ['suspended already', jobOf({ phase: 'Suspended' }, suspended), { placement }, []],
    ['resumed', jobOf({ phase: 'Suspended' }), { placement }, ['Pending/Resumed']],

    ['bound, not begun', jobOf(bound('Assigned')), {}, ['start']],
    ['bound, agent out of reach', jobOf(bound('Assigned')), { fate: 'unreachable' }, []],
    ['bound and taken on', jobOf(bound('Assigned')), { facts: { startAccepted: true } }, []],
    [
      'bound and begun',
      jobOf(bound('Assigned')),
      { facts: { report: report(RUNNING) } },
      ['Running/Running'],
    ],
    [
      'begun is told at once',
      jobOf(bound('Assigned')),
      { facts: { report: report(RUNNING) }, progressDue: false },
      ['Running/Running'],
    ],
    [
      'refused',
      jobOf(bound('Assigned')),
      { facts: { startRefused: { kind: 'busy', message: 'm' } } },
      ['Stopping/NotTaken'],
    ],
    [
      'refused and burnt',
      jobOf(bound('Stopping')),
      { facts: { startRefused: { kind: 'busy', message: 'm' }, stopped: true } },
      ['Pending/NotTaken'],
    ],
    [
      'an agent unable to do it counts',
      jobOf(bound('Stopping')),
      { facts: { startRefused: { kind: 'unable', message: 'm' }, stopped: true } },
      ['Pending/Interrupted'],
    ],
    [
      'suspended while bound',
      jobOf(bound('Assigned'), suspended),
      { fate: 'unreachable' },
      ['Stopping/Suspending'],
    ],

    [
      'progress is due',
      jobOf(bound('Running', { progress: '40%', stage: 'swap' })),
      { facts: { report: report(RUNNING) } },
      ['Running/Running'],
    ],
    [
      'progress is not due',
      jobOf(bound('Running', { progress: '40%', stage: 'swap' })),
      { facts: { report: report(RUNNING) }, progressDue: false },
      [],
    ],
    [
      'no progress, no write',
      jobOf(bound('Running', { progress: '50%', stage: 'swap' })),
      { facts: { report: report(RUNNING) } },
      [],
    ],
    ['silence of the agent proves nothing', jobOf(bound('Running')), { fate: 'unreachable' }, []],
    ['an agent that knows nothing of it', jobOf(bound('Running')), {}, ['Stopping/AttemptLost']],
    ['its agent is lost', jobOf(bound('Running')), { fate: 'lost' }, ['Pending/AgentLost']],
    ['its agent restarted', jobOf(bound('Assigned')), { fate: 'replaced' }, ['Pending/AgentLost']],
    [
      'it kills agents',
      jobOf(bound('Running', { lostAgents: MAX_LOST_AGENTS - 1 })),
      { fate: 'lost' },
      ['Failed/AgentsLost'],
    ],
    [
      'it ended well on an agent that was lost after',
      jobOf(bound('Running')),
      { fate: 'lost', facts: { report: report(SUCCEEDED, { output }) } },
      ['Succeeded/Succeeded', 'acknowledge'],
    ],
    [
      'it ended well just when it was suspended',
      jobOf(bound('Stopping'), suspended),
      { facts: { report: report(SUCCEEDED, { output }) } },
      ['Succeeded/Succeeded', 'acknowledge'],
    ],
    [
      'an output elsewhere than asked is no output',
      jobOf(bound('Running')),
      { facts: { report: report(SUCCEEDED, { output: { ...output, key: 'api/other/file.jpg' } }) } },
      ['Pending/Interrupted', 'acknowledge'],
    ],
    [
      'the work failed',
      jobOf(bound('Running')),
      { facts: { report: report(FAILED, { failure: { code: 'no_such_code', message: 'm' } }) } },
      ['Failed/WorkFailed', 'acknowledge'],
    ],
    [
      'interrupted',
      jobOf(bound('Running')),
      { facts: { report: report(INTERRUPTED) } },
      ['Pending/Interrupted', 'acknowledge'],
    ],
    [
      'interrupted once too often',
      jobOf(bound('Running', { interruptions: 2 })),
      { facts: { report: report(INTERRUPTED) } },
      ['Failed/BackoffLimitExceeded', 'acknowledge'],
    ],
    [
      'stopped by its agent',
      jobOf(bound('Running')),
      { facts: { report: report(STOPPED) } },
      ['Pending/Stopped', 'acknowledge'],
    ],
    [
      'stopped for its suspension',
      jobOf(bound('Stopping'), suspended),
      { facts: { stopped: true } },
      ['Suspended/Suspended'],
    ],
    [
      'its agent was lost while it was being suspended',
      jobOf(bound('Stopping'), suspended),
      { fate: 'lost' },
      ['Suspended/Suspended'],
    ],
    ['resumed while it is being stopped', jobOf(bound('Stopping')), {}, ['stop']],
    ['to be stopped, agent out of reach', jobOf(bound('Stopping')), { fate: 'unreachable' }, []],
    [
      'its time is over',
      jobOf(bound('Running', { startTime: ago(104) })),
      { facts: { report: report(RUNNING) } },
      ['Stopping/DeadlineExceeded'],
    ],
    [
      'its time was over long ago and its agent does not confirm the stop',
      jobOf(bound('Stopping', { startTime: ago(161) })),
      { fate: 'unreachable' },
      ['Failed/DeadlineExceeded'],
    ],
    [
      'its agent ended it for its time',
      jobOf(bound('Running', { startTime: ago(100) })),
      { facts: { report: report(INTERRUPTED) } },
      ['Failed/DeadlineExceeded', 'acknowledge'],
    ],

    [
      'deleted before it began',
      jobOf(undefined, { metadata: { deletionTimestamp: ago(1) } }),
      { placement },
      [],
    ],
    ['deleted while held back', jobOf({ phase: 'Suspended' }, deleted), {}, ['sweep', 'release']],
    ['deleted while bound', jobOf(bound('Running'), deleted), {}, ['Stopping/Deleted']],
    ['deleted, to be stopped', jobOf(bound('Stopping'), deleted), {}, ['stop']],
    ['deleted, agent out of reach', jobOf(bound('Stopping'), deleted), { fate: 'unreachable' }, []],
    ['deleted, agent lost', jobOf(bound('Stopping'), deleted), { fate: 'lost' }, ['sweep', 'release']],
    [
      'deleted and stopped',
      jobOf(bound('Stopping'), deleted),
      { facts: { stopped: true, report: report(STOPPED) } },
      ['acknowledge', 'sweep', 'release'],
    ],
    [
      'deleted long ago and nobody confirms',
      jobOf(bound('Stopping'), { metadata: { ...deleted.metadata, deletionTimestamp: ago(61) } }),
      { fate: 'unreachable' },
      ['sweep', 'release'],
    ],

    ['finished', jobOf(bound('Succeeded', { attempt: 1 })), {}, ['release']],
    ['finished at the second attempt', jobOf(bound('Succeeded')), {}, ['sweep', 'release']],
    [
      'finished and reported',
      jobOf(bound('Failed')),
      { facts: { report: report(FAILED) } },
      ['acknowledge', 'sweep', 'release'],
    ],
    ['finished and kept', jobOf({ phase: 'Succeeded', completionTime: ago(5) }), {}, []],
    [
      'finished and too old',
      jobOf({ phase: 'Succeeded', completionTime: ago(5) }, { spec: { ttlSecondsAfterFinished: 5 } }),
      {},
      ['delete'],
    ],
    [
      'finished, and suspended afterwards',
      jobOf({ phase: 'Succeeded', completionTime: ago(5) }, suspended),
      {},
      [],
    ],
  ];

  it.each(table)('%s', (_, job, more, expected) => {
    expect(decide(job, more).short).toEqual(expected);
  });

  it('binds with the next attempt number, cleared of the former attempt, and only with the finalizer', () => {
    const before = bound('Pending', { queuePosition: 4, progress: '80%', interruptions: 1 });
    const { actions, status } = decide(jobOf(before), { placement: { agent: 'two', incarnation: 'i9' } });
    expect(actions[0]).toMatchObject({ hold: true, event: { reason: 'Assigned' } });
    expect(status).toMatchObject({
      ...{ attempt: 3, agent: 'two', agentIncarnation: 'i9', interruptions: 1, observedGeneration: 3 },
    });
    for (const field of ['queuePosition', 'progress', 'startTime', 'stage'])
      expect(status).not.toHaveProperty(field);
  });

  it('doubles the wait between interrupted attempts, and waits after agents were lost again and again', () => {
    const waits = [0, 1].map((interruptions) => {
      const job = jobOf(bound('Running', { interruptions }));
      return decide(job, { facts: { report: report(INTERRUPTED) } }).status?.retryTime;
    });
    expect(waits).toEqual([ago(-1), ago(-2)]);
    const afterLosses = [0, 1, 2, 3].map(
      (lostAgents) => decide(jobOf(bound('Running', { lostAgents })), { fate: 'lost' }).status?.retryTime,
    );
    expect(afterLosses).toEqual([undefined, undefined, ago(-1), ago(-2)]);
  });

  it('asks to be called again for what no event will tell', () => {
    const pending = jobOf(undefined, { spec: { pendingDeadlineSeconds: 90 } });
    expect(decide(pending).requeueAfterMs).toBe(30_000);
    const running = jobOf(bound('Running', { progress: '50%', stage: 'swap' }));
    expect(decide(running, { facts: { report: report(RUNNING) } }).requeueAfterMs).toBe(98_000);
    const kept = jobOf({ phase: 'Failed', completionTime: ago(5) }, { spec: { ttlSecondsAfterFinished: 8 } });
    expect(decide(kept).requeueAfterMs).toBe(3_000);
  });

  it('keeps the conditions that kubectl wait looks for true to the phase', () => {
    const failed = decide(jobOf(bound('Running')), { facts: { report: report(FAILED) } }).status;
    expect(failed?.conditions?.map(({ type, status }) => [type, status])).toEqual([
      ['Ready', 'False'],
      ['Failed', 'True'],
    ]);
    const done = decide(jobOf(bound('Running')), { facts: { report: report(SUCCEEDED, { output }) } }).status;
    expect(done?.conditions?.map(({ type, status }) => [type, status])).toEqual([
      ['Ready', 'True'],
      ['Complete', 'True'],
    ]);
  });

  it('never writes what the schema would refuse, whatever an agent says', () => {
    const wild = report(RUNNING, { progress: Number.NaN, stage: 's'.repeat(500), startedAtMs: -5n });
    expect(decide(jobOf(bound('Assigned')), { facts: { report: wild } }).status).toMatchObject({
      progress: '0%',
      stage: 's'.repeat(64),
      startTime: ago(5),
    });
    const huge = report(SUCCEEDED, {
      output: {
        ...output,
        ...{ contentType: 'x'.repeat(500), engine: 'e'.repeat(500), sha256Hex: 'f'.repeat(500) },
        stages: Array.from({ length: 99 }, () => ({ name: 'n'.repeat(99), milliseconds: -3.7 })),
      },
    });
    const written = decide(jobOf(bound('Running')), { facts: { report: huge } }).status?.output;
    expect(written?.contentType).toHaveLength(128);
    expect(written?.engine).toHaveLength(64);
    expect(written?.sha256).toHaveLength(64);
    expect(written?.stages).toHaveLength(32);
    expect(written?.stages?.[0]).toEqual({ name: `${'n'.repeat(63)}…`, milliseconds: 0 });
    for (const wrong of [{ unit: 'banana' }, { sizeBytes: -1n }, { milliUnits: 2n ** 60n }]) {
      const bad = report(SUCCEEDED, { output: { ...output, ...wrong } });
      expect(decide(jobOf(bound('Running')), { facts: { report: bad } }).short[0]).toBe(
        'Pending/Interrupted',
      );
    }
  });
});
