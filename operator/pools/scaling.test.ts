import {
  agentOf,
  auto,
  busy,
  type Case,
  drained,
  idleFor,
  jobs,
  opens,
  planned,
  podOf,
  profileWith,
  secondsAgo,
  starting,
} from '@semblance/testkit/operator/pool-snapshots';
import { describe, expect, it } from 'vitest';

describe('scaling by work', () => {
  it.each<Case>([
    ['keeps none without work', { pool: auto({}) }, 0, []],
    ['keeps the minimum', { pool: auto({ minReplicas: 2 }) }, 2, ['+2']],
    ['starts from nothing for a waiting render', { pool: auto({}, 0), demand: jobs(1) }, 1, ['+1']],
    ['starts as many as hold what waits', { pool: auto({}, 0), demand: jobs(5) }, 3, ['+3']],
    ['never more than the maximum', { pool: auto({}, 0), demand: jobs(500) }, 4, ['+4']],
    [
      'counts what runs beside what waits',
      { pool: auto({}, 1), pods: [podOf('a', { agent: busy(2) })], demand: jobs(1) },
      2,
      ['+1'],
    ],
    [
      'gives what waits to slots that are free, and to agents that start',
      { pool: auto({}, 2), pods: [podOf('a', { agent: busy(1) }), starting('b')], demand: jobs(3) },
      2,
      [],
    ],
    [
      'sees that free slots are too scattered for a render that takes several',
      {
        pool: auto({}, 2),
        profile: profileWith({ costs: new Map([['face-swap', 2]]) }),
        pods: [podOf('a', { agent: busy(1) }), podOf('b', { agent: busy(1) })],
        demand: jobs(1),
      },
      3,
      ['+1'],
    ],
    [
      'sees that a free slot does not help who has waited for long, for want of memory say',
      { pool: auto({}, 1), pods: [podOf('a', { agent: busy(1) })], demand: jobs(1, 1) },
      2,
      ['+1'],
    ],
    [
      'does not grow for what even an agent without work does not take',
      { pool: auto({}, 1), pods: [podOf('a', { agent: idleFor(10) })], demand: jobs(1, 1) },
      1,
      [],
    ],
    [
      'does not start for what no agent is large enough for',
      { pool: auto({}, 0), profile: profileWith({ costs: new Map([['face-swap', 3]]) }), demand: jobs(1) },
      0,
      [],
    ],
    [
      'keeps a buffer of free slots',
      { pool: auto({ bufferSlots: 3 }, 1), pods: [podOf('a', { agent: busy(1) })] },
      2,
      ['+1'],
    ],
    [
      'starts for live sessions that found no slot, which have slots of their own',
      {
        pool: auto({}, 1),
        profile: profileWith({
          live: new Map([['voice', 4]]),
          capabilities: new Set(['voice', 'face-swap']),
        }),
        pods: [podOf('a', { agent: busy(2, { live: new Map([['voice', { slots: 4, used: 4 }]]) }) })],
        demand: opens(5),
      },
      3,
      ['+2'],
    ],
    [
      'reckons with one that a person keeps from work',
      {
        pool: auto({}, 1),
        pods: [podOf('a', { agent: agentOf({ ready: false, outOfService: true, idleSince: undefined }) })],
        demand: jobs(1),
      },
      2,
      ['+1'],
    ],
  ])('%s', (_, snapshot, desired, does) => {
    expect(planned(snapshot)).toEqual({ desired, does });
  });

  it.each<Case>([
    [
      'takes one at a time, of those idle for long enough the one that a person points at',
      {
        pool: auto({}, 3),
        pods: [
          podOf('a', { agent: idleFor(400) }),
          podOf('b', { deleteFirst: true, agent: idleFor(300) }),
          podOf('c'),
        ],
      },
      2,
      ['drain b'],
    ],
    [
      'leaves who is not idle for long enough',
      { pool: auto({}, 1), pods: [podOf('a', { agent: idleFor(299) })] },
      1,
      [],
    ],
    [
      'waits while another is being drained',
      { pool: auto({}, 1), pods: [podOf('a'), podOf('b', { agent: drained('ScaleDown', { used: 1 }) })] },
      1,
      [],
    ],
    [
      'takes nobody who is needed, though another starts in its place',
      { pool: auto({ minReplicas: 1 }, 2), pods: [podOf('a'), starting('b')] },
      2,
      [],
    ],
    [
      'leaves one that waits for its node, however long nothing waits for it',
      {
        pool: auto({}, 1),
        pods: [starting('a', { scheduled: false, unreadySince: undefined, createdAt: secondsAgo(599) })],
      },
      1,
      [],
    ],
    [
      'leaves one that warms up',
      {
        pool: auto({}, 1),
        pods: [starting('a', { unreadySince: secondsAgo(599), createdAt: secondsAgo(5_000) })],
      },
      1,
      [],
    ],
    [
      'ends the wait for a node that never comes when nothing waits for it',
      {
        pool: auto({}, 1),
        pods: [starting('a', { scheduled: false, unreadySince: undefined, createdAt: secondsAgo(600) })],
      },
      0,
      ['remove a: ScaleDown'],
    ],
    [
      'waits for that node as long as it is needed',
      {
        pool: auto({}, 1),
        pods: [starting('a', { scheduled: false, unreadySince: undefined, createdAt: secondsAgo(6_000) })],
        demand: jobs(1),
      },
      1,
      [],
    ],
    [
      'lets none go that has work when the number was lowered before it came',
      { pool: auto({}, 1), pods: [podOf('a', { agent: busy(1) }), podOf('b', { agent: busy(1) })] },
      1,
      [],
    ],
    [
      'drains even those with work when the maximum is lowered below what is used',
      {
        pool: auto({ maxReplicas: 1 }, 3),
        pods: [
          podOf('a', { agent: busy(2) }),
          podOf('b', { agent: busy(1) }),
          podOf('c', { agent: busy(2) }),
        ],
      },
      1,
      ['drain b', 'drain a'],
    ],
    [
      'takes a drain back when work returns',
      {
        pool: auto({}, 1),
        pods: [podOf('a', { agent: busy(2) }), podOf('b', { agent: drained('ScaleDown', { used: 1 }) })],
        demand: jobs(1),
      },
      2,
      ['undrain b'],
    ],
  ])('down: %s', (_, snapshot, desired, does) => {
    expect(planned(snapshot)).toEqual({ desired, does });
  });
});
