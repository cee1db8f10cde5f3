import { describe, expect, it } from 'vitest';
import type { RenderJob } from '#crds/gen/renderjobs.ts';
import type { AttemptOutput, AttemptState } from '#proto/semblance/agent/v1/agent.ts';
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
} from '../testing/decisions.ts';
import type { JobSnapshot } from './reconcile.ts';
import { MAX_LOST_AGENTS } from './reconcile-active.ts';

type Capability = RenderJob['spec']['capability'];
const PHOTO = 'face-swap-image';

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
    ]);
    const done = decide(jobOf(bound('Running')), { facts: { report: report(SUCCEEDED, { output }) } }).status;
    expect(done?.conditions?.map(({ type, status }) => [type, status])).toEqual([
      ['Ready', 'True'],
      ['Complete', 'True'],
    ]);
  });
});

describe('an output', () => {
  it('shows the time left in whole seconds, and no longer than it is known', () => {
    const running = jobOf(bound('Running'));
    const at = (etaSeconds?: number) => report(RUNNING, { progress: 0.42, stage: 'swap', etaSeconds });
    expect(decide(running, { facts: { report: at(12.3) } }).status?.etaSeconds).toBe(13);
    expect(decide(running, { facts: { report: at(Number.POSITIVE_INFINITY) } }).status).not.toHaveProperty(
      'etaSeconds',
    );
    expect(decide(running, { facts: { report: at(1e12) } }).status?.etaSeconds).toBe(604_800);
    const before = jobOf({ ...bound('Running'), etaSeconds: 13 });
    expect(decide(before, { facts: { report: at() } }).status).not.toHaveProperty('etaSeconds');
    const over = report(SUCCEEDED, { output });
    expect(decide(before, { facts: { report: over } }).status).not.toHaveProperty('etaSeconds');
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
        ...{ engine: 'e'.repeat(500), sha256Hex: 'f'.repeat(500) },
        stages: Array.from({ length: 99 }, () => ({
          name: 'n'.repeat(99),
          milliseconds: -3.7,
          engine: 'o'.repeat(99),
        })),
      },
    });
    const written = decide(jobOf(bound('Running')), { facts: { report: huge } }).status?.output;
    expect(written?.engine).toHaveLength(64);
    expect(written?.sha256).toHaveLength(64);
    expect(written?.stages).toHaveLength(32);
    expect(written?.stages?.[0]).toEqual({
      name: `${'n'.repeat(63)}…`,
      milliseconds: 0,
      engine: `${'o'.repeat(63)}…`,
    });
  });

  const second = { unit: 'second', milliUnits: 1_500n } as const;
  const video = { ...second, key: 'out/u1/2.mp4', contentType: 'video/mp4' } as const;
  it.each<[string, Capability, Partial<AttemptOutput>, 'taken' | 'refused']>([
    ['under the key of its type', PHOTO, { key: 'out/u1/2.webp', contentType: 'image/webp' }, 'taken'],
    ['under the key of another type', PHOTO, { key: 'out/u1/2.png' }, 'refused'],
    ['under a key that only begins as its own', PHOTO, { key: 'out/u1/2.jpg/../../3.jpg' }, 'refused'],
    ['under a key with a blank', PHOTO, { key: 'out/u1/2.j pg' }, 'refused'],
    ['of another attempt', PHOTO, { key: 'out/u1/1.jpg' }, 'refused'],
    ['of another job', PHOTO, { key: 'out/u2/2.jpg' }, 'refused'],
    ['without a key', PHOTO, { key: '' }, 'refused'],
    ['of a type it was given no place for', PHOTO, { contentType: 'video/mp4' }, 'refused'],
    ['of a type named as a property of every object', PHOTO, { contentType: 'constructor' }, 'refused'],
    ['of no known unit', PHOTO, { unit: 'banana' }, 'refused'],
    ['of a picture in seconds', PHOTO, second, 'refused'],
    ['of a video in seconds', 'face-swap', video, 'taken'],
    ['of a video in images', 'face-swap', { ...video, unit: 'image', milliUnits: 1_000n }, 'refused'],
    ['of a video of a day', 'face-swap', { ...video, milliUnits: 86_400_000n }, 'taken'],
    ['of a video longer than that', 'face-swap', { ...video, milliUnits: 86_400_001n }, 'refused'],
    ['of a picture that counts as two', PHOTO, { milliUnits: 2_000n }, 'refused'],
    ['of a measure beyond all numbers', PHOTO, { milliUnits: 2n ** 60n }, 'refused'],
    ['of a negative measure', PHOTO, { milliUnits: -1n }, 'refused'],
    ['of a negative size', PHOTO, { sizeBytes: -1n }, 'refused'],
  ])('%s', (_, capability, wrong, expected) => {
    const job = jobOf(bound('Running'), { spec: { capability } });
    const { short, status } = decide(job, {
      facts: { report: report(SUCCEEDED, { output: { ...output, ...wrong } }) },
    });
    expect(short[0]).toBe(expected === 'taken' ? 'Succeeded/Succeeded' : 'Pending/Interrupted');
    expect(status?.output !== undefined).toBe(expected === 'taken');
  });
});

describe('what the owner of a failed job reads', () => {
  const reported = (state: AttemptState, message: string) => ({
    report: report(state, { failure: { code: 'processing_failed', message } }),
  });
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
    // Those who run the system are told more.
    const ready = status?.conditions?.find(({ type }) => type === 'Ready');
    if (reason !== 'WorkFailed') expect(ready?.message).not.toBe(message);
  });
});
