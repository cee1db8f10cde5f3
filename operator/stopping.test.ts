import { RENDERJOB_RESOURCE, type RenderJob } from '@semblance/crds/gen/renderjobs';
import type { Run } from '@semblance/testkit/operator/fake-agent';
import { createHarness, type Harness } from '@semblance/testkit/operator/harness';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

let harness: Harness;

beforeEach(async () => {
  harness = await createHarness();
});

afterEach(async () => {
  await harness.close();
});

const phase = (name: string) => (job: RenderJob) => job.status?.phase === name;
const forever = () => {};

/** Creates a script that holds every run until the test ends it. */
function heldRuns() {
  const runs: Run[] = [];
  return { runs, script: (run: Run) => void runs.push(run) };
}

describe('suspending', () => {
  it('keeps a waiting job waiting and takes a running one off its agent, until resumed', async () => {
    const { runs, script } = heldRuns();
    const agent = await harness.agent({ name: 'one', slots: 1, script });
    await harness.operator();
    await harness.job('born-suspended', { suspend: true });
    await harness.until('born-suspended', phase('Suspended'));
    expect(agent.starts).toEqual([]);

    const suspend = (name: string, value: boolean) =>
      harness.client.mergePatch(
        RENDERJOB_RESOURCE,
        { namespace: harness.namespace, name },
        { spec: { suspend: value } },
      );
    await suspend('born-suspended', false);
    await harness.until('born-suspended', phase('Running'));
    await harness.job('waiting');
    await harness.until('waiting', (job) => job.status?.queuePosition === 1);
    await suspend('waiting', true);
    const waiting = await harness.until('waiting', phase('Suspended'));
    expect(waiting.status?.queuePosition).toBeUndefined();

    await suspend('born-suspended', true);
    const held = await harness.until('born-suspended', phase('Suspended'));
    expect(runs[0]?.stopped.aborted).toBe(true);
    expect(held.status).toMatchObject({ attempt: 1 });
    expect(held.status?.interruptions).toBeUndefined();

    await suspend('waiting', false);
    await harness.until('waiting', phase('Running'));
    await suspend('born-suspended', false);
    runs.at(-1)?.succeed();
    await harness.until('born-suspended', (job) => job.status?.attempt === 2 && phase('Running')(job));
    runs.at(-1)?.succeed();
    const done = await harness.until('born-suspended', phase('Succeeded'));
    expect(done.status?.output?.key).toBe(`out/${done.metadata.uid}/2.jpg`);
    await harness.until('born-suspended', (job) => (job.metadata.finalizers ?? []).length === 0);
    expect(harness.objects.deleted).toContain(`out/${done.metadata.uid}/1.jpg`);
    expect(harness.objects.deleted).not.toContain(`out/${done.metadata.uid}/2.jpg`);
  });
});

describe('deleting', () => {
  it('stops the work, whatever it was at', async () => {
    const { runs, script } = heldRuns();
    const agent = await harness.agent({ name: 'one', slots: 1, script });
    await harness.operator();
    const running = await harness.job('running');
    await harness.until('running', phase('Running'));
    await harness.job('waiting');
    await harness.until('waiting', (job) => job.status?.phase === 'Pending');
    const remove = (name: string) =>
      harness.client.delete(RENDERJOB_RESOURCE, { namespace: harness.namespace, name });
    await remove('waiting');
    await harness.untilGone('waiting');
    await remove('running');
    await harness.untilGone('running');
    expect(runs[0]?.stopped.aborted).toBe(true);
    expect(agent.stops).toContainEqual({ uid: running.metadata.uid, attempt: 1 });
    await expect.poll(() => agent.held.size).toBe(0);
    expect(harness.objects.deleted).toContain(`out/${running.metadata.uid}/1.jpg`);
    await harness.job('next');
    await harness.until('next', phase('Running'));
  });

  it('does not wait for ever for an agent that is gone', async () => {
    const agent = await harness.agent({ name: 'one', leaseSeconds: 8, script: forever });
    await harness.operator();
    await harness.job('bereft');
    await harness.until('bereft', phase('Running'));
    await agent.kill();
    await harness.client.delete(RENDERJOB_RESOURCE, { namespace: harness.namespace, name: 'bereft' });
    await harness.untilGone('bereft');
  });

  it('ends an attempt whose job was removed by force', async () => {
    const { runs, script } = heldRuns();
    const agent = await harness.agent({ name: 'one', slots: 1, script });
    await harness.operator();
    await harness.job('forced');
    await harness.until('forced', phase('Running'));
    const ref = { namespace: harness.namespace, name: 'forced' };
    await harness.client.mergePatch(RENDERJOB_RESOURCE, ref, { metadata: { finalizers: [] } });
    await harness.client.delete(RENDERJOB_RESOURCE, ref);
    await expect.poll(() => runs[0]?.stopped.aborted).toBe(true);
    await expect.poll(() => agent.held.size).toBe(0);
  });
});
