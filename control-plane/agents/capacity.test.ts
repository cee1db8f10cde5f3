import type { AgentPool } from '@semblance/crds/gen/agentpools';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import { expect, test } from 'vitest';
import { waitingWork } from './capacity.ts';
import { poolOf } from './pool-of.ts';

const NOW = Date.parse('2026-01-01T00:10:00Z');

function job(capability: string, phase: string | undefined, reason?: string, more: object = {}): RenderJob {
  const conditions = reason
    ? [{ type: 'Ready', status: 'False', reason, message: `because of ${reason}`, lastTransitionTime: '' }]
    : [];
  return {
    apiVersion: 'semblance.dev/v1alpha1',
    kind: 'RenderJob',
    metadata: { name: 'job', creationTimestamp: '2026-01-01T00:09:00Z', ...more },
    spec: { capability, inputs: [] },
    ...(phase ? { status: { phase, conditions } } : {}),
  } as RenderJob;
}

test('work that waits is summed by capability and reason, with the wait of the oldest', () => {
  const jobs = [
    job('avatar', 'Pending', 'SlotsBusy'),
    job('avatar', 'Pending', 'SlotsBusy', { creationTimestamp: '2026-01-01T00:00:00Z' }),
    job('avatar', 'Pending', 'MemoryBusy'),
    job('face-swap', undefined),
    job('face-swap', 'Suspended', 'Suspended'),
    job('face-swap', 'Running', 'Running'),
    job('face-swap', 'Succeeded', 'Succeeded'),
    job('face-swap', 'Pending', 'SlotsBusy', { deletionTimestamp: '2026-01-01T00:09:30Z' }),
  ];
  expect(waitingWork(jobs, NOW).map(({ message: _, ...rest }) => rest)).toEqual([
    { capability: 'avatar', reason: 'SlotsBusy', jobs: 2, longestSeconds: 600n },
    { capability: 'avatar', reason: 'MemoryBusy', jobs: 1, longestSeconds: 60n },
    { capability: 'face-swap', reason: 'Unexplained', jobs: 1, longestSeconds: 60n },
    { capability: 'face-swap', reason: 'Suspended', jobs: 1, longestSeconds: 60n },
  ]);
  expect(waitingWork([], NOW)).toEqual([]);
});

test.each([
  ['gpu-ab12c', 'gpu'],
  ['gpu-large-ab12c', 'gpu-large'],
  ['gpu-large', 'gpu'],
  ['by-hand', undefined],
  ['gpu', undefined],
  ['', undefined],
])('the agent %s belongs to the pool %s', (name, pool) => {
  const pools = ['gpu', 'gpu-large'].map((each) => ({ metadata: { name: each } }) as AgentPool);
  expect(poolOf({ metadata: { name } } as GpuAgent, pools)).toBe(pool);
});
