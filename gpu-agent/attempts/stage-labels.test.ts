import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { createAgentMetrics } from '../metrics.ts';
import { createStageLabels } from './stage-labels.ts';

it('the names of stages that come first are kept, for each capability', () => {
  const label = createStageLabels(2);
  expect(['fetch', 'swap', 'frame 1', 'swap', 'frame 2'].map((stage) => label('a', stage))).toEqual([
    ...['fetch', 'swap', 'other', 'swap', 'other'],
  ]);
  expect(label('b', 'frame 1')).toBe('frame 1');
});

it('an engine that names its stages after frames has no figure for each', async () => {
  const registry = new Registry();
  const none = () => 0;
  const metrics = createAgentMetrics(registry, { slots: none, slotsUsed: none, unacknowledged: none });
  for (let frame = 0; frame < 5_000; frame++) metrics.stageTook('face-swap', `frame ${frame}`, 20);
  metrics.stageTook('face-swap-image', 'swap', 20);
  const [seconds] = (await registry.getMetricsAsJSON()).filter(({ name }) => name.endsWith('stage_seconds'));
  const stages = new Set(seconds?.values.map(({ labels }) => (labels as { stage?: string }).stage));
  expect(stages.size).toBeLessThan(100);
  expect(stages).toContain('other');
  expect(stages).toContain('swap');
});
