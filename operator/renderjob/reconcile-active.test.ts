import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { AttemptState } from '@semblance/proto/semblance/agent/v1/agent';
import {
  ago,
  bound,
  decide,
  FAILED,
  INTERRUPTED,
  jobOf,
  NOW,
  output,
  RUNNING,
  report,
  STOPPED,
  SUCCEEDED,
  suspended,
} from '@semblance/testkit/operator/decisions';
import { describe, expect, it } from 'vitest';
import type { JobSnapshot } from './job-snapshot.ts';
import { MAX_LOST_AGENTS } from './reconcile-active.ts';

/** Facts of an attempt that ended with this message. */
const reported = (state: AttemptState, message: string) => ({
  report: report(state, { failure: { code: 'processing_failed', message } }),
});

describe('reconcile of a job that is bound', () => {
  const table: [string, RenderJob, Partial<JobSnapshot>, string[]][] = [
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
      'it may end before anybody could read that it runs',
      jobOf(bound('Assigned')),
      { facts: { report: report(RUNNING), heardAt: NOW - 499 } },
      [],
    ],
    [
      'it runs and goes on',
      jobOf(bound('Assigned')),
      { facts: { report: report(RUNNING), heardAt: NOW - 500 }, progressDue: false },
      ['Running/Running'],
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
    [
      'the time left is another where the work stands',
      jobOf(bound('Running', { progress: '50%', stage: 'swap', etaSeconds: 600 })),
      { facts: { report: report(RUNNING, { etaSeconds: 449 }) } },
      ['Running/Running'],
    ],
    [
      'the time left is another, and not due',
      jobOf(bound('Running', { progress: '50%', stage: 'swap', etaSeconds: 600 })),
      { facts: { report: report(RUNNING, { etaSeconds: 1_800 }) }, progressDue: false },
      [],
    ],
    [
      'the time left is known',
      jobOf(bound('Running', { progress: '50%', stage: 'swap' })),
      { facts: { report: report(RUNNING, { etaSeconds: 600 }) } },
      ['Running/Running'],
    ],
    [
      'the time left runs down by itself',
      jobOf(bound('Running', { progress: '50%', stage: 'swap', etaSeconds: 600 })),
      { facts: { report: report(RUNNING, { etaSeconds: 450 }) } },
      [],
    ],
    ['silence of the agent proves nothing', jobOf(bound('Running')), { fate: 'unreachable' }, []],
    ['an agent that knows nothing of it', jobOf(bound('Running')), {}, ['Stopping/AttemptLost']],
    ['its agent is lost', jobOf(bound('Running')), { fate: 'lost' }, ['Pending/AgentLost']],
    [
      'its agent is lost with its Pod, however often before',
      jobOf(bound('Running', { lostAgents: MAX_LOST_AGENTS - 1 })),
      { fate: 'lost', ended: 'Its Pod was deleted.' },
      ['Pending/Disrupted'],
    ],
    [
      'its agent is replaced on a cordoned node, and its time is over',
      jobOf(bound('Running', { startTime: ago(200) })),
      { fate: 'replaced', ended: 'Its node n1 is cordoned.' },
      ['Failed/DeadlineExceeded'],
    ],
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
  ];

  it.each(table)('%s', (_, job, more, expected) => {
    expect(decide(job, more).short).toEqual(expected);
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
  it('counts no agent that went for a reason outside it, and waits for nothing then', () => {
    const ended = 'Its Pod was deleted.';
    const lost = jobOf(bound('Running', { lostAgents: 5 }));
    const { status } = decide(lost, { fate: 'lost', ended });
    expect(status).toMatchObject({ lostAgents: 5, phase: 'Pending' });
    expect(status).not.toHaveProperty('retryTime');
  });
  it('keeps the conditions that kubectl wait looks for true to the phase', () => {
    const failed = decide(jobOf(bound('Running')), { facts: { report: report(FAILED) } }).status;
    expect(failed?.conditions?.map(({ type, status }) => [type, status])).toEqual([
      ['Ready', 'False'],
      ['Failed', 'True'],
      ['Finished', 'True'],
    ]);
    const done = decide(jobOf(bound('Running')), { facts: { report: report(SUCCEEDED, { output }) } }).status;
    expect(done?.conditions?.map(({ type, status }) => [type, status])).toEqual([
      ['Ready', 'True'],
      ['Complete', 'True'],
      ['Finished', 'True'],
    ]);
  });
});

describe('what the owner of a failed job reads', () => {
  const late = { startTime: ago(200) };
  it.each<[string, RenderJob, Partial<JobSnapshot>, string]>([
    [
      'PendingDeadlineExceeded',
      jobOf(undefined, { spec: { pendingDeadlineSeconds: 60 } }),
      {},
      'The work could not be completed in time.',
    ],
    [
      'AgentsLost',
      jobOf(bound('Running', { lostAgents: MAX_LOST_AGENTS - 1 })),
      { fate: 'lost' },
      'The work could not be completed.',
    ],
    [
      'BackoffLimitExceeded',
      jobOf(bound('Running', { interruptions: 2 })),
      { facts: reported(INTERRUPTED, 'GET http://10.0.0.7:9000/in?sig=1 answered 500 (one)') },
      'The work could not be completed.',
    ],
    [
      'DeadlineExceeded',
      jobOf(bound('Stopping', late)),
      { facts: { stopped: true } },
      'The work took too long.',
    ],
    ['DeadlineExceeded', jobOf(bound('Stopping', late)), { fate: 'unreachable' }, 'The work took too long.'],
    [
      'WorkFailed',
      jobOf(bound('Running')),
      { facts: reported(FAILED, 'There is no face.') },
      'There is no face.',
    ],
  ])('after %s names no agent, setting or address', (reason, job, more, message) => {
    const { short, status } = decide(job, more);
    expect(short[0]).toBe(`Failed/${reason}`);
    expect(status?.failure).toEqual({ code: 'processing_failed', message });
    // Operating staff are told more.
    const ready = status?.conditions?.find(({ type }) => type === 'Ready');
    if (reason !== 'WorkFailed') expect(ready?.message).not.toBe(message);
  });
});

describe('the attempts of a job', () => {
  const ended = (number: number) => ({
    ...{ number, agent: 'zero', endTime: ago(20), reason: 'Interrupted', message: 'm' },
  });

  it.each<[string, RenderJob, Partial<JobSnapshot>, object]>([
    [
      'that was interrupted',
      jobOf(bound('Running')),
      { facts: reported(INTERRUPTED, 'the device ran out of memory') },
      { startTime: ago(5), reason: 'Interrupted', message: expect.stringContaining('out of memory') },
    ],
    [
      'that ended before it was written as running',
      jobOf(bound('Assigned')),
      { facts: { report: report(SUCCEEDED, { output }) } },
      { startTime: ago(5), reason: 'Succeeded', message: expect.stringContaining('Rendered on one') },
    ],
    [
      'whose agent is lost',
      jobOf(bound('Assigned')),
      { fate: 'lost' },
      { reason: 'AgentLost', message: expect.stringContaining('stopped renewing its Lease') },
    ],
    [
      'that failed for its input',
      jobOf(bound('Running')),
      { facts: reported(FAILED, 'There is no face.') },
      { startTime: ago(5), reason: 'WorkFailed', message: 'There is no face.' },
    ],
  ])('one %s is listed with its agent, its times and its end', (_what, job, more, end) => {
    expect(decide(job, more).status?.attempts).toEqual([
      { number: 2, agent: 'one', endTime: ago(0), ...end },
    ]);
  });

  it('those before stay, the last 16', () => {
    const attempts = Array.from({ length: 16 }, (_, i) => ended(i + 1));
    const job = jobOf(bound('Running', { attempt: 17, attempts }));
    const after = decide(job, { fate: 'lost' }).status?.attempts;
    expect(after?.map(({ number }) => number)).toEqual(Array.from({ length: 16 }, (_, i) => i + 2));
  });

  it('a bound one is not listed while it goes on', () => {
    const stopped = decide(jobOf(bound('Running'), { spec: { suspend: true } }));
    expect(stopped.short).toEqual(['Stopping/Suspending']);
    expect(stopped.status?.attempts).toBeUndefined();
  });

  it('a message longer than the resource takes is cut', () => {
    const { status } = decide(jobOf(bound('Running')), { facts: reported(FAILED, 'x'.repeat(2_000)) });
    expect(status?.attempts?.[0]?.message).toHaveLength(512);
  });
});
