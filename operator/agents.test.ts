import { GPUAGENT_RESOURCE, type GpuAgent } from '@semblance/crds/gen/gpuagents';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { Run } from '@semblance/testkit/operator/fake-agent';
import { createHarness, type Harness, readyOf, waits } from '@semblance/testkit/operator/harness';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

let harness: Harness;

beforeEach(async () => {
  harness = await createHarness();
});

afterEach(async () => {
  await harness.close();
});

const phase = (name: string) => (job: RenderJob) => job.status?.phase === name;
const readyReason = (reason: string) => (agent: GpuAgent) =>
  agent.status?.conditions?.find(({ type }) => type === 'Ready')?.reason === reason;
const forever = () => {};

describe('an agent', () => {
  it('is shown with its readiness and the slots in use', async () => {
    const agent = await harness.agent({ name: 'one', slots: 3, script: forever });
    await harness.operator();
    await harness.agentUntil('one', readyReason('Ready'));
    await harness.job('busy');
    const shown = await harness.agentUntil('one', ({ status }) => status?.slotsUsed === 1);
    expect(shown.status).toMatchObject({ slots: 3, incarnation: agent.incarnation, observedGeneration: 1 });
    await harness.until('busy', phase('Running'));

    await harness.client.mergePatch(
      GPUAGENT_RESOURCE,
      { namespace: harness.namespace, name: 'one' },
      { spec: { drain: true } },
    );
    await harness.agentUntil('one', readyReason('Draining'));
    await harness.job('later');
    const later = await harness.until('later', waits('AgentsDraining', 1));
    expect(readyOf(later)?.message).toBe(
      '1st of 1 waiting; 1 agent could take it but is not ready (one: Draining).',
    );
    // Running work is left alone.
    expect((await harness.get('busy')).status?.phase).toBe('Running');
    expect(agent.stops).toEqual([]);
  });

  it('is shown as it is again after somebody wrote something else there', async () => {
    await harness.agent({ name: 'one', script: forever });
    await harness.operator();
    const { status, metadata } = await harness.agentUntil('one', readyReason('Ready'));
    const conditions = status?.conditions?.map((each) => ({
      ...each,
      status: 'False',
      reason: 'Overwritten',
    }));
    const ref = { namespace: harness.namespace, name: 'one' };
    const patch = { metadata: { uid: metadata.uid }, status: { conditions, slotsUsed: 7 } };
    await harness.client.mergePatch(GPUAGENT_RESOURCE, ref, patch, { subresource: 'status' });
    const shown = await harness.agentUntil('one', readyReason('Ready'));
    expect(shown.status?.slotsUsed).toBe(0);
  });

  it('that is killed has its work taken over by another within its Lease and a margin', async () => {
    const victim = await harness.agent({ name: 'a', leaseSeconds: 8, script: forever });
    await harness.operator();
    await harness.job('moved');
    await harness.until('moved', phase('Running'));
    await harness.agent({ name: 'b', script: (run) => run.succeed() });
    await harness.agentUntil('b', readyReason('Ready'));
    const killed = performance.now();
    await victim.kill();
    await harness.agentUntil('a', readyReason('Unreachable'));
    // Silence alone proves nothing.
    expect((await harness.get('moved')).status).toMatchObject({ attempt: 1, phase: 'Running' });
    const done = await harness.until('moved', phase('Succeeded'));
    expect(done.status).toMatchObject({ attempt: 2, agent: 'b', lostAgents: 1 });
    expect(done.status?.interruptions).toBeUndefined();
    // The victim was not fenced, so the rest of its Lease and the margin must pass.
    expect(performance.now() - killed).toBeGreaterThan(2_500);
    await harness.agentUntil('a', readyReason('HeartbeatLost'));
  });

  it('that restarts takes its work up again as soon as it has registered', async () => {
    const first = await harness.agent({ name: 'one', slots: 1, script: forever });
    await harness.operator();
    await harness.job('again');
    await harness.until('again', phase('Running'));
    await first.kill();
    const second = await harness.agent({ name: 'one', slots: 1, script: (run) => run.succeed() });
    const done = await harness.until('again', phase('Succeeded'));
    expect(done.status).toMatchObject({ attempt: 2, agent: 'one', agentIncarnation: second.incarnation });
  });

  it('that ends an attempt by itself, as when it drains, is not held against the job', async () => {
    const runs: Run[] = [];
    const agent = await harness.agent({ name: 'a', slots: 4, script: (run) => void runs.push(run) });
    await harness.operator();
    await harness.job('drained', { backoffLimit: 0 });
    await harness.until('drained', phase('Running'));
    await harness.agent({ name: 'b', script: (run) => run.succeed() });
    await agent.setDraining(true);
    await harness.agentUntil('a', readyReason('Draining'));
    runs[0]?.stop();
    const done = await harness.until('drained', phase('Succeeded'));
    expect(done.status).toMatchObject({ attempt: 2, agent: 'b' });
    expect(done.status?.interruptions).toBeUndefined();
  });

  it('whose streams break goes on with its work', async () => {
    const runs: Run[] = [];
    const agent = await harness.agent({ name: 'one', script: (run) => void runs.push(run) });
    await harness.operator();
    await harness.job('steady');
    await harness.until('steady', phase('Running'));
    agent.dropStreams();
    runs[0]?.progress(0.5);
    await harness.until('steady', (job) => job.status?.progress === '50%');
    agent.dropStreams();
    runs[0]?.succeed();
    const done = await harness.until('steady', phase('Succeeded'));
    expect(done.status?.attempt).toBe(1);
    expect(agent.starts).toHaveLength(1);
  });

  it('that is long dead and idle is removed', async () => {
    const agent = await harness.agent({ name: 'old', leaseSeconds: 6, script: forever });
    await harness.operator({ agentRetentionMs: 500 });
    await harness.agentUntil('old', readyReason('Ready'));
    await agent.kill();
    await expect
      .poll(() => harness.client.find(GPUAGENT_RESOURCE, { namespace: harness.namespace, name: 'old' }), {
        timeout: 60_000,
      })
      .toBeUndefined();
  });
});
