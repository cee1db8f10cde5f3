import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import {
  ago,
  bound,
  decide,
  deleted,
  FAILED,
  jobOf,
  keptByBoth,
  placement,
  RUNNING,
  report,
  STOPPED,
  SUCCEEDED,
  suspended,
} from '@semblance/testkit/operator/decisions';
import { describe, expect, it } from 'vitest';
import type { JobSnapshot } from './job-snapshot.ts';

/** Covers jobs that are not bound, that are deleted, or that have finished. */
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
      'a job that lost its agent and found no other in time fails too',
      jobOf(
        { phase: 'Pending', attempt: 1, lostAgents: 1, queueTime: ago(60) },
        { spec: { pendingDeadlineSeconds: 60 } },
      ),
      {},
      ['Failed/PendingDeadlineExceeded'],
    ],
    [
      'each wait is given the whole deadline',
      jobOf(
        { phase: 'Pending', attempt: 1, lostAgents: 1, queueTime: ago(59) },
        { spec: { pendingDeadlineSeconds: 60 } },
      ),
      { placement },
      ['Assigned/Assigned'],
    ],
    [
      'the pause before a retry is no part of the wait',
      jobOf(
        { phase: 'Pending', attempt: 4, queueTime: ago(100), retryTime: ago(40) },
        { spec: { pendingDeadlineSeconds: 60 } },
      ),
      { placement },
      ['Assigned/Assigned'],
    ],
    [
      'a wait that began with a pause ends as well',
      jobOf(
        { phase: 'Pending', attempt: 4, queueTime: ago(120), retryTime: ago(60) },
        { spec: { pendingDeadlineSeconds: 60 } },
      ),
      { placement },
      ['Failed/PendingDeadlineExceeded'],
    ],
    [
      'a pause longer than the deadline is no failure',
      jobOf(
        { phase: 'Pending', attempt: 4, queueTime: ago(20), retryTime: ago(-5) },
        { spec: { pendingDeadlineSeconds: 10 } },
      ),
      { placement },
      [],
    ],
    [
      'without a pending deadline a job waits for as long as it takes',
      jobOf({ phase: 'Pending', attempt: 1, queueTime: ago(365 * 86_400) }),
      {},
      [],
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

    [
      'deleted before it began',
      jobOf(undefined, { metadata: { deletionTimestamp: ago(1) } }),
      { placement },
      [],
    ],
    [
      'deleted before it was bound, and kept by the control plane too, which takes both finalizers off',
      jobOf({ phase: 'Pending' }, { metadata: { ...keptByBoth.metadata, deletionTimestamp: ago(1) } }),
      { placement },
      [],
    ],
    [
      'deleted between two attempts, and kept by the control plane too',
      jobOf(
        { phase: 'Pending', attempt: 1 },
        { metadata: { ...keptByBoth.metadata, deletionTimestamp: ago(1) } },
      ),
      { placement },
      ['sweep', 'release'],
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
    [
      'finished at the first attempt, and kept by the control plane too, which takes both finalizers off',
      jobOf(bound('Succeeded', { attempt: 1 }), keptByBoth),
      {},
      [],
    ],
    [
      'finished at the first attempt and reported, and kept by the control plane too',
      jobOf(bound('Succeeded', { attempt: 1 }), keptByBoth),
      { facts: { report: report(SUCCEEDED) } },
      ['acknowledge', 'forget'],
    ],
    [
      'the agent was told already',
      jobOf(bound('Succeeded', { attempt: 1 }), keptByBoth),
      { facts: { report: report(SUCCEEDED), acknowledged: true } },
      ['forget'],
    ],
    [
      'finished at the second attempt, and kept by the control plane too: there is something to clean up',
      jobOf(bound('Succeeded'), keptByBoth),
      {},
      ['sweep', 'release'],
    ],
    [
      'failed at the first attempt, and kept by the control plane too',
      jobOf(bound('Failed', { attempt: 1 }), keptByBoth),
      {},
      ['sweep', 'release'],
    ],
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
    const before = bound('Pending', { queuePosition: 4, queueLength: 9, progress: '80%', interruptions: 1 });
    const { actions, status } = decide(jobOf(before), { placement: { agent: 'two', incarnation: 'i9' } });
    expect(actions[0]).toMatchObject({ hold: true, event: { reason: 'Assigned' } });
    expect(status).toMatchObject({
      attempt: 3,
      agent: 'two',
      agentIncarnation: 'i9',
      interruptions: 1,
      observedGeneration: 3,
    });
    for (const field of ['queuePosition', 'queueLength', 'progress', 'startTime', 'stage'])
      expect(status).not.toHaveProperty(field);
  });

  it('tells the place and how many wait for the same agents together, and takes both back together', () => {
    const waiting = { reason: 'SlotsBusy', message: 'm', position: 3, total: 12 };
    const { status } = decide(jobOf(undefined), { waiting });
    expect(status).toMatchObject({ queuePosition: 3, queueLength: 12 });
    const nowhere = { reason: 'NoAgents', message: 'm', position: undefined };
    const after = decide(jobOf(status), { waiting: nowhere });
    for (const field of ['queuePosition', 'queueLength']) expect(after.status).not.toHaveProperty(field);
  });

  it('asks to be called again for what no event will tell', () => {
    const pending = jobOf(undefined, { spec: { pendingDeadlineSeconds: 90 } });
    expect(decide(pending).requeueAfterMs).toBe(30_000);
    const again = jobOf({ phase: 'Pending', attempt: 1, queueTime: ago(5) }, pending);
    expect(decide(again).requeueAfterMs).toBe(85_000);
    const paused = jobOf({ phase: 'Pending', attempt: 1, queueTime: ago(5), retryTime: ago(-2) }, pending);
    expect(decide(paused).requeueAfterMs).toBe(2_000);
    const running = jobOf(bound('Running', { progress: '50%', stage: 'swap' }));
    expect(decide(running, { facts: { report: report(RUNNING) } }).requeueAfterMs).toBe(98_000);
    const kept = jobOf({ phase: 'Failed', completionTime: ago(5) }, { spec: { ttlSecondsAfterFinished: 8 } });
    expect(decide(kept).requeueAfterMs).toBe(3_000);
  });
});
