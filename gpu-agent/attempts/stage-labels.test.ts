import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { createAgentMetrics } from '../metrics.ts';
import { createStageLabels } from './stage-labels.ts';

it('the names of stages that come first are kept, for each capability', () => {
  const label = createStageLabels();
  const first = Array.from({ length: 60 }, (_, i) => `stage ${i}`);
  expect(first.map((stage) => label('a', stage))).toEqual(first);
  expect(['stage 0', 'frame 1', 'stage 59', 'frame 2'].map((stage) => label('a', stage))).toEqual([
    ...['stage 0', 'other', 'stage 59', 'other'],
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
