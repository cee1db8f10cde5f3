import { call, createClient } from '@semblance/common/grpc/client';
import { RENDERJOB_RESOURCE, type RenderJob, type RenderJobStatus } from '@semblance/crds/gen/renderjobs';
import { AgentServiceClient } from '@semblance/proto/semblance/agent/v1/agent';
import type { FakeAgent, Ledger, Run } from '@semblance/testkit/operator/fake-agent';
import { createHarness, type Harness } from '@semblance/testkit/operator/harness';
import { createOperatorProcesses } from '@semblance/testkit/operator/operator-process';
import { overlaps } from '@semblance/testkit/operator/overlaps';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { FINALIZER } from './renderjob/types.ts';

let harness: Harness;

beforeEach(async () => {
  harness = await createHarness();
});

afterEach(async () => {
  await harness.close();
});

const phase = (name: string) => (job: RenderJob) => job.status?.phase === name;
const released = (job: RenderJob) => (job.metadata.finalizers ?? []).length === 0;

/** Creates what a dead operator leaves behind: the resource as last written, and the agent as last called. */
async function leaveBehind(
  agent: FakeAgent,
  name: string,
  at: { status?: RenderJobStatus; begun?: boolean; spec?: Partial<RenderJob['spec']> },
): Promise<RenderJob> {
  const { client, namespace } = harness;
  const job = await harness.job(name, at.spec);
  const { uid } = job.metadata;
  const by = { fieldManager: 'semblance-operator' };
  await client.apply(RENDERJOB_RESOURCE, { metadata: { name, namespace, uid, finalizers: [FINALIZER] } }, by);
  if (at.status) {
    const status = { attempt: 1, agent: 'one', agentIncarnation: agent.incarnation, ...at.status };
    await client.apply(
      RENDERJOB_RESOURCE,
      { metadata: { name, namespace, uid }, status },
      { ...by, subresource: 'status' },
    );
  }
  if (at.begun) {
    const direct = createClient(AgentServiceClient, agent.address);
    const ref = { jobUid: uid ?? '', attempt: 1 };
    const sink = { contentType: 'image/jpeg', url: '', headers: {}, key: `out/${uid}/1.jpg` };
    const request = {
      ref,
      jobName: name,
      namespace,
      incarnation: agent.incarnation,
      capability: job.spec.capability,
      parameters: {},
      engineOptions: {},
      inputs: {},
      sinks: [sink],
      deadlineSeconds: 60,
      requestId: '',
    };
    await call(direct.startAttempt.bind(direct), request, { timeoutMs: 30_000 });
    direct.close();
  }
  return harness.get(name);
}

describe('an operator that takes over', () => {
  const steps: Record<string, { status?: RenderJobStatus; begun?: boolean }> = {
    'after the finalizer was put on': {},
    'after the binding was written': { status: { phase: 'Assigned' } },
    'after the agent was asked to begin': { status: { phase: 'Assigned' }, begun: true },
    'after Running was written': { status: { phase: 'Running', progress: '10%' }, begun: true },
  };

  it.each(Object.entries(steps))('%s goes on with that very attempt', async (_, step) => {
    const agent = await harness.agent({
      name: 'one',
      async script(run) {
        await new Promise((resolve) => setTimeout(resolve, 150));
        run.succeed();
      },
    });
    const { metadata } = await leaveBehind(agent, 'inherited', step);
    await harness.operator();
    const done = await harness.until('inherited', phase('Succeeded'));
    expect(done.status?.attempt).toBe(1);
    expect(agent.begun).toEqual([`${metadata.uid}/1`]);
    await harness.until('inherited', released);
    await expect.poll(() => agent.held.size).toBe(0);
  });

  it('after the result was reported, or recorded, records it once and tells the agent', async () => {
    const agent = await harness.agent({ name: 'one', slots: 4, script: (run) => run.succeed() });
    await leaveBehind(agent, 'reported', { status: { phase: 'Running' }, begun: true });
    const output = {
      key: 'out/x/1.jpg',
      contentType: 'image/jpeg',
      sizeBytes: 1,
      unit: 'image',
      milliUnits: 1,
    } as const;
    const completionTime = new Date().toISOString();
    const recorded = { phase: 'Succeeded', output, completionTime } as const;
    await leaveBehind(agent, 'recorded', { status: recorded, begun: true });
    await harness.operator();
    await harness.until('reported', (job) => phase('Succeeded')(job) && released(job));
    const kept = await harness.until('recorded', released);
    expect(kept.status).toMatchObject(recorded);
    await expect.poll(() => agent.held.size).toBe(0);
    expect(agent.begun).toHaveLength(2);
  });

  it('while a stop was under way finishes it', async () => {
    const runs: Run[] = [];
    const agent = await harness.agent({ name: 'one', slots: 4, script: (run) => void runs.push(run) });
    const stopping = { status: { phase: 'Stopping' } as const, begun: true };
    await leaveBehind(agent, 'suspending', { ...stopping, spec: { suspend: true } });
    await leaveBehind(agent, 'deleting', stopping);
    await harness.client.delete(RENDERJOB_RESOURCE, { namespace: harness.namespace, name: 'deleting' });
    await harness.operator();
    await harness.until('suspending', phase('Suspended'));
    await harness.untilGone('deleting');
    expect(runs.map(({ stopped }) => stopped.aborted)).toEqual([true, true]);
  });

  it('finds work of a former process of the agent lost, and an attempt the agent never heard of begun', async () => {
    const agent = await harness.agent({ name: 'one', slots: 4, script: (run) => run.succeed() });
    const { metadata } = await leaveBehind(agent, 'former', {
      status: { phase: 'Running', agentIncarnation: 'former' },
    });
    await leaveBehind(agent, 'forgotten', { status: { phase: 'Running' } });
    await harness.operator();
    const former = await harness.until('former', phase('Succeeded'));
    expect(former.status).toMatchObject({ attempt: 2, lostAgents: 1 });
    expect(agent.begun).toContain(`${metadata.uid}/2`);
    const forgotten = await harness.until('forgotten', phase('Succeeded'));
    expect(forgotten.status?.attempt).toBe(2);
    expect(agent.stops).toContainEqual({ uid: forgotten.metadata.uid, attempt: 1 });
  });
});

describe('leadership', () => {
  it('passes on at once when the leader ends, and the work goes on untouched', async () => {
    const runs: Run[] = [];
    const agent = await harness.agent({ name: 'one', script: (run) => void runs.push(run) });
    const first = await harness.operator();
    await expect.poll(() => first.leading).toBe(true);
    const second = await harness.operator();
    await harness.job('carried');
    await harness.until('carried', phase('Running'));
    const began = performance.now();
    await first.close();
    await expect.poll(() => second.leading, { timeout: 40_000, interval: 20 }).toBe(true);
    // The first operator released its Lease: this is long before it would have lapsed.
    expect(performance.now() - began).toBeLessThan(40_000);
    runs[0]?.succeed();
    const done = await harness.until('carried', phase('Succeeded'));
    expect(done.status?.attempt).toBe(1);
    expect(agent.starts).toHaveLength(1);
  });
});

describe('the process', () => {
  it('killed again and again loses nothing and never runs a job twice at once', async () => {
    const ledger: Ledger = { entries: [] };
    const script = async (run: Run) => {
      await new Promise((resolve) => setTimeout(resolve, 120));
      run.succeed();
    };
    for (const name of ['a', 'b']) await harness.agent({ name, slots: 2, ledger, script });
    const processes = await createOperatorProcesses(harness);
    let started = 0;
    const launch = () =>
      processes.start(`operator-${++started}`, {
        SEMBLANCE_OPERATOR_LEASE_SECONDS: '2',
        SEMBLANCE_OPERATOR_RENEW_DEADLINE_SECONDS: '1.6',
        SEMBLANCE_OPERATOR_RENEW_SECONDS: '0.3',
      });
    const names = Array.from({ length: 24 }, (_, i) => `kill-${i}`);
    for (const name of names) await harness.job(name);
    const finished = async () => {
      const { items } = await harness.client.list(RENDERJOB_RESOURCE, { namespace: harness.namespace });
      return items.filter(phase('Succeeded')).length;
    };
    let operator = await launch();
    try {
      for (let kills = 0; kills < 3; kills++) {
        const before = await finished();
        // The kill comes at an arbitrary point.
        await expect.poll(finished, { timeout: 60_000, interval: 10 }).toBeGreaterThan(before);
        await new Promise((resolve) => setTimeout(resolve, 37 * kills));
        await operator.kill('SIGKILL');
        operator = await launch();
      }
      for (const name of names)
        await harness.until(name, (job) => phase('Succeeded')(job) && released(job), 60_000);
    } finally {
      await processes.close();
    }
    expect(overlaps(ledger)).toEqual([]);
    // Each job runs once: a dead operator is no reason to do work again.
    expect(ledger.entries).toHaveLength(names.length);
  }, 240_000);
});
