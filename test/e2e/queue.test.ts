import { eventually } from '@semblance/testkit/stack/eventually';
import { conditionOf, type Kubectl } from '@semblance/testkit/stack/kubectl';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { renderJob, type SwapInputs, swapInputs, untilPhase } from '@semblance/testkit/stack/render-jobs';
import { type Stack, stackAt } from '@semblance/testkit/stack/stack';
import { type StackProcess, startStackProcess, WITHOUT_LIVE } from '@semblance/testkit/stack/stack-process';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

/**
 * Drains the only agent, so that every job waits. The tests have their own stack, because jobs of others would wait
 * too.
 */
let running: StackProcess;
let stack: Stack;
let kubectl: Kubectl;
let inputs: SwapInputs;
let agent: string;

beforeAll(async () => {
  running = await startStackProcess({ env: WITHOUT_LIVE });
  stack = stackAt(running.file);
  kubectl = stack.kubectl;
  inputs = await swapInputs((await stack.newAccount()).api);
  agent = (await kubectl(['get', 'gpuagents', '-o', 'jsonpath={.items[0].metadata.name}'])).trim();
  await drain(true);
}, 240_000);

afterAll(() => running?.close(), 200_000);

async function drain(on: boolean): Promise<void> {
  await kubectl.patch('gpuagent', agent, { spec: { drain: on } });
  await eventually(`the agent to ${on ? 'drain' : 'be ready'}`, async () => {
    const status = `{.status.conditions[?(@.type=="Ready")].status}`;
    const ready = (await kubectl(['get', 'gpuagent', agent, '-o', `jsonpath=${status}`])).trim();
    return ready === (on ? 'False' : 'True') ? true : undefined;
  });
}

async function queue(spec: Record<string, unknown> = {}): Promise<string> {
  const job = renderJob(inputs, spec);
  await kubectl.apply(job);
  return job.metadata.name;
}

/** Waits until the jobs have these places in the queue. */
function places(expected: Record<string, number>): Promise<unknown> {
  return eventually(`the places ${JSON.stringify(expected)}`, async () => {
    const jobs = await Promise.all(Object.keys(expected).map((name) => kubectl.renderJob(name)));
    const seen = jobs.map((job) => job?.status?.queuePosition);
    if (seen.join() === Object.values(expected).join()) return true;
    throw new Error(`they are ${seen.join()}`);
  });
}

describe('while no agent takes work', () => {
  test('a queued job says why it waits and its place; deletion and priority move the others', async () => {
    const first = await queue();
    await places({ [first]: 1 });
    const second = await queue();
    await places({ [first]: 1, [second]: 2 });
    const third = await queue();
    await places({ [first]: 1, [second]: 2, [third]: 3 });

    // The job may first give other reasons, which pass.
    const waiting = await eventually('its reason and its place', async () => {
      const job = await kubectl.renderJob(third);
      const settled =
        job?.status?.queuePosition === 3 && /drain/i.test(conditionOf(job, 'Ready')?.message ?? '');
      return settled ? job : undefined;
    });
    expect(waiting?.status).toMatchObject({ phase: 'Pending', queuePosition: 3 });
    expect(waiting?.status?.agent ?? '').toBe('');
    const ready = conditionOf(waiting, 'Ready');
    expect(ready?.status).toBe('False');
    // The reason must help a person: which agent, what is wrong with it, and how many jobs are ahead.
    expect(ready?.reason).toMatch(/^[A-Z][A-Za-z]+$/);
    expect(ready?.message).toMatch(/drain/i);
    expect(ready?.message).toMatch(/\b3\b|third|\b2 (jobs?|others?)? ?ahead/i);

    await kubectl(['delete', 'renderjob', first, '--timeout=60s']);
    await places({ [second]: 1, [third]: 2 });
    await kubectl.patch('renderjob', third, { spec: { priority: 10 } });
    await places({ [third]: 1, [second]: 2 });
    await kubectl.patch('renderjob', third, { spec: { suspend: true } });
    await untilPhase(kubectl, third, 'Suspended');
    await places({ [second]: 1 });
    await kubectl(['delete', 'renderjob', second, third, '--timeout=60s']);
  }, 300_000);

  test('a job that may wait only so long fails when that is over', async () => {
    const name = await queue({ pendingDeadlineSeconds: 2 });
    const failed = await untilPhase(kubectl, name, 'Failed');
    expect(failed.status?.failure?.code).toBe('processing_failed');
    expect(failed.status?.attempt ?? 0).toBe(0);
  });

  test('an API job stays `queued`; deleting its RenderJob fails it and refunds the hold', async () => {
    const { api } = await stack.newAccount({ balanceUsd: 10 });
    const [image_key, face_key] = await Promise.all([api.upload(ASTRONAUT), api.upload(ADMIRAL)]);
    const { id } = await api.swap({ image_key, face_key });
    await eventually('its RenderJob', () => kubectl.renderJob(id));
    await places({ [id]: 1 });
    expect((await api.job(id)).status).toBe('queued');
    expect((await api.balance()).balance_usd).toBeLessThan(10);
    await kubectl(['delete', 'renderjob', id, '--timeout=60s']);
    const job = await api.finished(id);
    expect([job.status, job.error?.code, job.charged_usd]).toEqual(['failed', 'processing_failed', 0]);
    expect((await api.balance()).balance_usd).toBe(10);
  });

  test('when the agent takes work again everything that waits is done, highest priority first', async () => {
    const names = [await queue(), await queue(), await queue({ priority: 100 })];
    await places({ [names[2] as string]: 1, [names[0] as string]: 2, [names[1] as string]: 3 });
    await drain(false);
    const done = await Promise.all(names.map((name) => untilPhase(kubectl, name, 'Succeeded')));
    const started = done.map(({ status }) => Date.parse(status?.startTime ?? ''));
    expect(Math.min(...started)).toBe(started[2]);
    for (const { status } of done) expect(status?.queuePosition).toBeUndefined();
  }, 300_000);
});

test('a finished job with ttlSecondsAfterFinished is removed', async () => {
  const name = await queue({ ttlSecondsAfterFinished: 1 });
  await eventually('it to be removed', async () => ((await kubectl.renderJob(name)) ? undefined : true), {
    withinMs: 100_000,
  });
});
