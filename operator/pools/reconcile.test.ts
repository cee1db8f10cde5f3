import { describe, expect, it } from 'vitest';
import type { AgentPool, AgentPoolStatus } from '#crds/gen/agentpools.ts';
import {
  agentOf,
  busy,
  drained,
  planned,
  podOf,
  poolOf,
  profileWith,
  secondsAgo,
  starting,
} from '../testing/pool-snapshots.ts';
import { NO_DEMAND, type PoolPod, type PoolSnapshot } from './types.ts';

type Case = [string, Partial<PoolSnapshot>, number, string[]];

const replicas = (count: number, status?: AgentPoolStatus, more: Partial<AgentPool['spec']> = {}) =>
  poolOf({ replicas: count, ...more }, status);
const auto = (
  bounds: Partial<NonNullable<AgentPool['spec']['autoscaling']>>,
  desiredReplicas?: number,
  more: Partial<AgentPool['spec']> = {},
) =>
  poolOf(
    { autoscaling: { maxReplicas: 4, ...bounds }, capabilities: ['face-swap'], ...more },
    desiredReplicas === undefined ? undefined : { desiredReplicas },
  );
const jobs = (count: number, passedOver = 0) => ({
  ...{ jobs: new Map([['face-swap', count]]), passedOver: new Map([['face-swap', passedOver]]) },
  opens: new Map(),
});
const opens = (count: number) => ({ ...NO_DEMAND, opens: new Map([['voice', count]]) });
const pods = (...names: string[]): PoolPod[] => names.map((name) => podOf(name));
const old = (name: string, more: Partial<PoolPod> = {}) => podOf(name, { revision: 'old', ...more });
const idleFor = (seconds: number) => agentOf({ idleSince: secondsAgo(seconds) });

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

describe('a changed template', () => {
  it.each<Case>([
    ['makes one beyond the number first', { pool: replicas(2), pods: [old('a'), old('b')] }, 2, ['+1']],
    ['waits for it to become ready', { pool: replicas(2), pods: [old('a'), old('b'), starting('n')] }, 2, []],
    [
      'then drains one, the one with the least work',
      { pool: replicas(2), pods: [old('a', { agent: busy(1) }), old('b'), podOf('n')] },
      2,
      ['drain b'],
    ],
    [
      'makes the next when the room of the former is free',
      {
        pool: replicas(2),
        pods: [old('a'), old('b', { agent: drained('RollingUpdate', { used: 1 }) }), podOf('n')],
      },
      2,
      [],
    ],
    ['and goes on', { pool: replicas(2), pods: [old('a'), podOf('n')] }, 2, ['+1']],
    [
      'needs no room beyond the number when one may be missing',
      {
        pool: replicas(2, undefined, { strategy: { maxSurge: 0, maxUnavailable: 1 } }),
        pods: [old('a'), old('b')],
      },
      2,
      ['drain a'],
    ],
    [
      'that cannot start leaves the old ones as they are',
      {
        pool: replicas(1),
        pods: [old('a'), starting('n', { obstacle: { reason: 'ErrImagePull', message: 'm' } })],
      },
      1,
      [],
    ],
    [
      'removes old ones at once that were not ready',
      { pool: replicas(2), pods: [old('a'), starting('b', { revision: 'old' })] },
      2,
      ['+1', 'remove b: RollingUpdate'],
    ],
    [
      'changed again, drops what it had begun and keeps those that serve',
      {
        pool: replicas(2),
        revision: 'newest',
        pods: [old('a'), old('b', { agent: drained('RollingUpdate', { used: 1 }) }), podOf('n')],
      },
      2,
      [],
    ],
    [
      'changed back, keeps the Pods of before',
      {
        pool: replicas(2),
        revision: 'old',
        pods: [old('a'), old('b', { agent: drained('RollingUpdate', { used: 1 }) }), starting('n')],
      },
      2,
      ['undrain b', 'remove n: RollingUpdate'],
    ],
    [
      'is not held up by what a scaling down lets finish',
      { pool: replicas(1), pods: [old('a'), old('b', { agent: drained('ScaleDown', { used: 1 }) })] },
      1,
      ['+1'],
    ],
    [
      'goes on while the number is lowered',
      { pool: replicas(1), pods: [old('a'), old('b'), old('c')] },
      1,
      ['drain a', 'drain b'],
    ],
  ])('%s', (_, snapshot, desired, does) => {
    expect(planned(snapshot)).toEqual({ desired, does });
  });

  it('never has more than the number and maxSurge, nor fewer ready than allowed, whatever becomes ready when', () => {
    let seed = 7;
    const next = () => {
      seed = (seed + 0x6d2b79f5) | 0;
      const mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
      return (mixed ^ (mixed >>> 14)) >>> 0;
    };
    const random = (below: number) => next() % below;
    for (let round = 0; round < 40; round++) {
      const maxSurge = random(3);
      const maxUnavailable = maxSurge === 0 ? 1 + random(2) : random(3);
      const count = 1 + random(5);
      const pool = replicas(count, undefined, { strategy: { maxSurge, maxUnavailable } });
      let now: PoolPod[] = Array.from({ length: count }, (_, i) => old(`old-${i}`));
      let made = 0;
      let revision = 'new';
      for (let step = 0; step < 200; step++) {
        if (step === 10) revision = 'newest';
        const snapshot = { pool, pods: now, revision };
        const { does } = planned(snapshot);
        for (const each of does) {
          const [verb, name = ''] = each.replace(/:.*/, '').split(' ');
          if (verb === 'remove') now = now.filter((pod) => pod.name !== name);
          const used = random(2);
          now = now.map((pod) => {
            if (pod.name !== name) return pod;
            if (verb === 'drain') return { ...pod, agent: drained('RollingUpdate', { used }) };
            return verb === 'undrain' ? { ...pod, agent: agentOf() } : pod;
          });
          for (let i = 0; verb?.startsWith('+') && i < Number(verb); i++)
            now = [...now, starting(`made-${made++}`, { revision })];
        }
        const ready = now.filter(({ agent }) => agent?.ready).length;
        expect(now.length).toBeLessThanOrEqual(count + maxSurge);
        expect(ready).toBeGreaterThanOrEqual(Math.max(0, count - maxUnavailable));
        now = now.map((pod) => {
          if (pod.agent?.drained) return { ...pod, agent: drained('RollingUpdate', { used: random(2) }) };
          return !pod.agent && random(2) ? { ...pod, agent: agentOf(), unreadySince: undefined } : pod;
        });
      }
      expect(now.map((pod) => pod.revision)).toEqual(Array(count).fill('newest'));
    }
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
