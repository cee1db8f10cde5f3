import {
  agentOf,
  busy,
  type Case,
  drained,
  old,
  planned,
  podOf,
  replicas,
  starting,
} from '@semblance/testkit/operator/pool-snapshots';
import { describe, expect, it } from 'vitest';
import type { PoolPod } from './types.ts';

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
