import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createHarness, type Harness } from './testing/harness.ts';

let harness: Harness;

beforeEach(async () => {
  harness = await createHarness();
});

afterEach(async () => {
  await harness.close();
});

const ready = (job: { status?: { conditions?: { type: string; reason: string; message: string }[] } }) =>
  job.status?.conditions?.find(({ type }) => type === 'Ready');

describe('a job', () => {
  it('goes to an agent, reports its progress and ends with an output', async () => {
    const agent = await harness.agent({
      name: 'one',
      async script(run) {
        run.progress(0.425, 'swap');
        await new Promise((resolve) => setTimeout(resolve, 200));
        run.succeed();
      },
    });
    const operator = await harness.operator();
    const created = await harness.job('happy');
    const done = await harness.until('happy', (job) => job.status?.phase === 'Succeeded');

    expect(done.status).toMatchObject({
      attempt: 1,
      agent: 'one',
      agentIncarnation: agent.incarnation,
      progress: '100%',
      observedGeneration: 1,
      output: {
        key: `out/${created.metadata.uid}/1.jpg`,
        contentType: 'image/jpeg',
        unit: 'image',
        milliUnits: 1000,
      },
    });
    expect(ready(done)).toMatchObject({ reason: 'Succeeded', status: 'True' });
    expect(done.status?.conditions).toContainEqual(
      expect.objectContaining({ type: 'Complete', status: 'True' }),
    );
    const [start] = agent.starts;
    expect(start?.inputs.image?.url).toBe('http://objects.test/api/test/base.jpg?signed');
    expect(start?.sinks.map(({ contentType }) => contentType)).toEqual([
      'image/jpeg',
      'image/png',
      'image/webp',
    ]);
    expect(agent.starts).toHaveLength(1);
    const released = await harness.until('happy', (job) => (job.metadata.finalizers ?? []).length === 0);
    expect(released.status?.phase).toBe('Succeeded');
    expect(agent.acknowledged).toContain(`${created.metadata.uid}/1`);
    expect(agent.held.size).toBe(0);
    expect(operator.leading).toBe(true);
    const answer = await fetch(`http://127.0.0.1:${operator.healthPort}/readyz`);
    expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('leader: ok')]);
  });
});
