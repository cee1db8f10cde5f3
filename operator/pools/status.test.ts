import {
  auto,
  jobs,
  podOf,
  poolOf,
  replicas,
  snapshotWith,
  starting,
} from '@semblance/testkit/operator/pool-snapshots';
import { expect, test } from 'vitest';
import { reconcile } from './reconcile.ts';
import { statusOf } from './status.ts';
import type { PoolSnapshot } from './types.ts';

const readyOf = (given: Partial<PoolSnapshot>) => {
  const snapshot = snapshotWith(given);
  const { conditions } = statusOf(snapshot, reconcile(snapshot), []);
  return conditions?.find(({ type }) => type === 'Ready');
};

test('a pool without agents says why it has none, and what would start one', () => {
  expect(readyOf({ pool: auto({}, 0) })).toMatchObject({
    status: 'True',
    reason: 'ScaledToZero',
    message: expect.stringMatching(/^No agent is wanted; one is started when work for .+ waits\.$/),
  });
  // Waiting work changes nothing, because a person has set the number of agents.
  expect(readyOf({ pool: replicas(0), demand: jobs(1) })).toMatchObject({
    status: 'True',
    reason: 'ScaledToZero',
    message: 'No agent is wanted: spec.replicas is 0.',
  });
});

test('a pool whose agents fetch models says which set they are at', () => {
  const pool = poolOf({ replicas: 3, modelSets: ['faces', 'voices'] });
  const pods = [podOf('a'), starting('b', { fetching: 2 }), starting('c', { fetching: 1 })];
  expect(readyOf({ pool, pods })).toMatchObject({
    status: 'False',
    reason: 'FetchingModels',
    message:
      '1 of 3 agents take work; b, c are fetching models; the slowest is at the model set faces (1 of 2).',
  });
});
