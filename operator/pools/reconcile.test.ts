import {
  agentOf,
  auto,
  busy,
  type Case,
  drained,
  jobs,
  planned,
  podOf,
  pods,
  replicas,
  secondsAgo,
  starting,
} from '@semblance/testkit/operator/pool-snapshots';
import { describe, expect, it } from 'vitest';

describe('a number of replicas', () => {
  it.each<Case>([
    ['is one when nothing is said', {}, 1, ['+1']],
    ['is made up', { pool: replicas(3), pods: pods('a') }, 3, ['+2']],
    ['is left alone when it is there', { pool: replicas(2), pods: pods('a', 'b') }, 2, []],
    ['counts what starts', { pool: replicas(2), pods: [podOf('a'), starting('b')] }, 2, []],
    ['can be none', { pool: replicas(0), pods: [starting('a')] }, 0, ['remove a: ScaleDown']],
    [
      'does not count what ends or has ended, which is removed',
      {
        pool: replicas(2),
        pods: [
          podOf('a', { terminating: true }),
          podOf('b', { end: { reason: 'Evicted', message: 'disk' } }),
          podOf('c'),
        ],
      },
      2,
      ['+1', 'remove b: AgentEnded'],
    ],
    [
      'lets agents go by draining, the unready at once and first',
      { pool: replicas(1), pods: [podOf('a'), podOf('b'), starting('c')] },
      1,
      ['remove c: ScaleDown', 'drain a'],
    ],
    [
      'lets those go first that a person points at, then those with the least work',
      {
        pool: replicas(1),
        pods: [
          podOf('a', { agent: busy(1) }),
          podOf('b', { agent: busy(2), deleteFirst: true }),
          podOf('c', { agent: busy(2) }),
          podOf('d'),
        ],
      },
      1,
      ['drain b', 'drain d', 'drain a'],
    ],
    [
      'removes what is drained, and gives work its time',
      {
        pool: replicas(0),
        pods: [
          podOf('a', { agent: drained('ScaleDown') }),
          podOf('b', { agent: drained('ScaleDown', { used: 1 }) }),
        ],
      },
      0,
      ['remove a: Drained'],
    ],
    [
      'counts live sessions as work',
      {
        pool: replicas(0),
        pods: [
          podOf('a', { agent: drained('ScaleDown', { live: new Map([['voice', { slots: 4, used: 1 }]]) }) }),
        ],
      },
      0,
      [],
    ],
    [
      'does not wait longer than drainSeconds',
      {
        pool: replicas(0, undefined, { drainSeconds: 30 }),
        pods: [podOf('b', { agent: drained('ScaleDown', { used: 1 }) })],
      },
      0,
      ['remove b: DrainTimedOut'],
    ],
    [
      'takes a drain back before it makes a Pod, of who has the most work',
      {
        pool: replicas(3),
        pods: [
          podOf('a'),
          podOf('b', { agent: drained('ScaleDown', { used: 2 }) }),
          podOf('c', { agent: drained('ScaleDown') }),
        ],
      },
      3,
      ['undrain b', 'undrain c'],
    ],
    [
      'does not take back what a person drains, nor replaces it',
      { pool: replicas(1), pods: [podOf('a', { agent: agentOf({ ready: false, outOfService: true }) })] },
      1,
      [],
    ],
  ])('%s', (_, snapshot, desired, does) => {
    expect(planned(snapshot)).toEqual({ desired, does });
  });
});

describe('claims', () => {
  it.each<Case>([
    [
      'stand for Pods that are not to be seen yet',
      { pool: replicas(3, { creating: ['x', 'y'] }), pods: pods('a') },
      3,
      ['!x', '!y'],
    ],
    [
      'are over once the Pod is there',
      { pool: replicas(2, { creating: ['a', 'y'] }), pods: pods('a') },
      2,
      ['!y'],
    ],
    [
      'are over for a Pod that ends already, which is replaced',
      { pool: replicas(1, { creating: ['a'] }), pods: [podOf('a', { terminating: true })] },
      1,
      ['+1'],
    ],
    ['are given up when fewer are wanted', { pool: replicas(1, { creating: ['x', 'y'] }) }, 1, ['!x']],
    [
      'that were refused are given up',
      { pool: replicas(1, { creating: ['x'] }), refused: new Set(['x']) },
      1,
      ['+1'],
    ],
    ['are so many at a time', { pool: replicas(200) }, 200, ['+50']],
  ])('%s', (_, snapshot, desired, does) => {
    expect(planned(snapshot)).toEqual({ desired, does });
  });
});

describe('what cannot be started', () => {
  const hold = { reason: 'ErrImagePull', message: 'm', until: secondsAgo(-5) };
  it.each<Case>([
    ['is not made again before the pause is over', { pool: replicas(1), hold }, 1, []],
    ['is made again after it', { pool: replicas(1), hold: { ...hold, until: secondsAgo(0) } }, 1, ['+1']],
    [
      'is replaced after the time to warm up',
      { pool: replicas(1), pods: [starting('a', { unreadySince: secondsAgo(600) })] },
      1,
      ['+1', 'remove a: WarmUpTimedOut'],
    ],
    [
      'and not replaced when nothing waits for it',
      { pool: auto({}, 1), pods: [starting('a', { unreadySince: secondsAgo(600) })] },
      0,
      ['remove a: WarmUpTimedOut'],
    ],
    [
      'is not made again and again for what waits',
      {
        pool: auto({}, 1),
        pods: [starting('a', { obstacle: { reason: 'ErrImagePull', message: 'm' } })],
        demand: jobs(8),
      },
      1,
      [],
    ],
    [
      'is left to wait for its node',
      {
        pool: replicas(1),
        pods: [starting('a', { scheduled: false, unreadySince: undefined, createdAt: 0 })],
      },
      1,
      [],
    ],
  ])('%s', (_, snapshot, desired, does) => {
    expect(planned(snapshot)).toEqual({ desired, does });
  });
});
