import type { Api } from '@semblance/testkit/stack/api';
import { eventually } from '@semblance/testkit/stack/eventually';
import { conditionOf, type Kubectl } from '@semblance/testkit/stack/kubectl';
import { faceless, largePortrait, longPortrait } from '@semblance/testkit/stack/media';
import {
  renderJob,
  type SwapInputs,
  swapInputs,
  untilPhase,
  untilPhaseOrEnd,
  whileRunning,
} from '@semblance/testkit/stack/render-jobs';
import { type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { beforeAll, describe, expect, test } from 'vitest';

let stack: Stack;
let kubectl: Kubectl;
let api: Api;
let inputs: SwapInputs;

beforeAll(async () => {
  stack = await sharedStack();
  kubectl = stack.kubectl;
  ({ api } = await stack.newAccount());
  inputs = await swapInputs(api);
}, 240_000);

/** Creates a RenderJob of these inputs and returns its name. */
async function apply(of: SwapInputs): Promise<string> {
  const job = renderJob(of);
  await kubectl.apply(job);
  return job.metadata.name;
}

describe('a RenderJob made by hand', () => {
  test('runs to Succeeded, says where and what it made, and bills nobody', async () => {
    const before = await api.balance();
    const job = renderJob(inputs);
    await kubectl.apply(job);
    const done = await untilPhase(kubectl, job.metadata.name, 'Succeeded');
    expect(done.status).toMatchObject({
      phase: 'Succeeded',
      attempt: 1,
      progress: '100%',
      observedGeneration: done.metadata.generation,
      output: { contentType: expect.stringMatching(/^image\//), unit: 'image', milliUnits: 1000 },
    });
    expect(done.status?.agent).toBeTruthy();
    expect(done.status?.output?.sizeBytes).toBeGreaterThan(10_000);
    expect(Date.parse(done.status?.completionTime ?? '')).toBeGreaterThanOrEqual(
      Date.parse(done.status?.startTime ?? ''),
    );
    expect(await api.balance()).toEqual(before);
    // Scripts wait with this command.
    for (const condition of ['Complete', 'Finished'])
      await kubectl([
        'wait',
        `--for=condition=${condition}`,
        `renderjob/${job.metadata.name}`,
        '--timeout=60s',
      ]);
    await kubectl(['delete', 'rj', job.metadata.name, '--timeout=60s']);
  });

  test('that cannot be done becomes Failed and says why', async () => {
    const job = renderJob(await swapInputs(api, await faceless()));
    await kubectl.apply(job);
    const failed = await untilPhase(kubectl, job.metadata.name, 'Failed');
    expect(failed.status?.failure?.code).toBe('face_not_detected');
    expect(conditionOf(failed, 'Failed')?.status).toBe('True');
    expect(conditionOf(failed, 'Ready')).toMatchObject({
      status: 'False',
      message: expect.stringMatching(/face/i),
    });
    await kubectl(['wait', '--for=condition=Failed', `renderjob/${job.metadata.name}`, '--timeout=60s']);
  });

  test('one of whose inputs is nowhere fails at its first attempt and says which', async () => {
    const key = `api/${'0'.repeat(26)}`;
    const job = renderJob(inputs.map((input) => (input.name === 'face' ? { ...input, key } : input)));
    await kubectl.apply(job);
    // `Finished` ends the wait whether the job succeeds or fails.
    await kubectl(['wait', '--for=condition=Finished', `renderjob/${job.metadata.name}`, '--timeout=60s']);
    const failed = await untilPhase(kubectl, job.metadata.name, 'Failed');
    const message = `The input face does not exist: nothing is stored under ${key}.`;
    expect(failed.status).toMatchObject({ attempt: 1, failure: { code: 'processing_failed', message } });
    expect(conditionOf(failed, 'Finished')).toMatchObject({ status: 'True', reason: 'WorkFailed', message });
  });

  test('leaves a trace of events', async () => {
    const job = renderJob(inputs);
    await kubectl.apply(job);
    const { metadata } = await untilPhase(kubectl, job.metadata.name, 'Succeeded');
    await eventually('events of the job', async () => {
      const selector = `regarding.uid=${metadata.uid}`;
      const text = await kubectl([
        'get',
        'events.events.k8s.io',
        '--field-selector',
        selector,
        '-o',
        'name',
      ]).catch(() =>
        kubectl(['get', 'events', '--field-selector', `involvedObject.uid=${metadata.uid}`, '-o', 'name']),
      );
      return text.trim() ? text : undefined;
    });
  });
});

describe('deleting and suspending', () => {
  test('one that is made suspended never starts; resumed it runs', async () => {
    const job = renderJob(inputs, { suspend: true });
    await kubectl.apply(job);
    const held = await untilPhase(kubectl, job.metadata.name, 'Suspended');
    expect(conditionOf(held, 'Ready')).toMatchObject({
      status: 'False',
      reason: expect.stringMatching(/suspend/i),
    });
    expect(held.status?.attempt ?? 0).toBe(0);
    await kubectl.patch('renderjob', job.metadata.name, { spec: { suspend: false } });
    const done = await untilPhase(kubectl, job.metadata.name, 'Succeeded');
    expect(done.status?.attempt).toBe(1);
  });

  test('suspended while it runs it leaves its agent; resumed it is done in a new attempt', async () => {
    const large = await swapInputs(api, await longPortrait());
    const suspended = await whileRunning(
      kubectl,
      () => apply(large),
      async (name) => {
        await kubectl.patch('renderjob', name, { spec: { suspend: true } });
        const held = await untilPhaseOrEnd(kubectl, name, 'Suspended');
        return held.status?.phase === 'Suspended' ? held : undefined;
      },
    );
    expect(suspended.status?.completionTime).toBeUndefined();
    const { name } = suspended.metadata;
    await kubectl.patch('renderjob', name, { spec: { suspend: false } });
    const done = await untilPhase(kubectl, name, 'Succeeded');
    expect(done.status?.attempt).toBe(2);
  });

  test('deleted while it runs it is gone at once and its slot is free', async () => {
    const large = await swapInputs(api, await longPortrait());
    const name = await whileRunning(
      kubectl,
      () => apply(large),
      async (job) => {
        await kubectl(['delete', 'renderjob', job, '--timeout=60s']);
        return job;
      },
    );
    expect(await kubectl.renderJob(name)).toBeUndefined();
    // The agent must take and finish other work.
    const next = renderJob(inputs);
    await kubectl.apply(next);
    await untilPhase(kubectl, next.metadata.name, 'Succeeded');
  });

  test('the RenderJob of an API job, deleted: the job fails, and everything is refunded', async () => {
    const large = await longPortrait();
    const small = await largePortrait(600);
    let account = await stack.newAccount({ balanceUsd: 10 });
    const { id, job } = await whileRunning(
      kubectl,
      async () => {
        account = await stack.newAccount({ balanceUsd: 10 });
        const [image_key, face_key] = await Promise.all([
          account.api.upload(large),
          account.api.upload(small),
        ]);
        const submitted = await account.api.swap({ image_key, face_key });
        const made = await eventually('its RenderJob', () => kubectl.renderJob(submitted.id));
        expect(made.spec).toMatchObject({ account: account.accountId, capability: 'face-swap-image' });
        return submitted.id;
      },
      async (id) => {
        await kubectl(['delete', 'renderjob', id, '--timeout=60s']);
        const job = await account.api.finished(id);
        return job.status === 'succeeded' ? undefined : { id, job };
      },
    );
    const { api, accountId } = account;
    expect(job).toEqual({
      id,
      status: 'failed',
      output_url: null,
      charged_usd: 0,
      error: { code: 'processing_failed', message: expect.stringMatching(/cancel|delete/i) },
    });
    expect(await api.balance()).toMatchObject({ balance_usd: 10, total_spent_usd: 0 });
    expect(await stack.admin('account', 'show', { account: accountId })).toMatchObject({ ledger_ok: true });
    // The RenderJob must stay deleted: a level-triggered controller must not create it again.
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    expect(await kubectl.renderJob(id)).toBeUndefined();
  });
});

describe('what the API server itself refuses', () => {
  test.each<[string, (job: ReturnType<typeof renderJob>) => unknown, RegExp]>([
    [
      'an unknown capability',
      (job) => ({ ...job, spec: { ...job.spec, capability: 'juggle' } }),
      /capability/,
    ],
    [
      'an input too few',
      (job) => ({ ...job, spec: { ...job.spec, inputs: inputs.slice(0, 1) } }),
      /image and face/,
    ],
    [
      'a role that is none',
      (job) => ({ ...job, spec: { ...job.spec, inputs: [inputs[0], { name: 'cat', key: 'api/a' }] } }),
      /image and face/,
    ],
    [
      'a key without the prefix',
      (job) => ({ ...job, spec: { ...job.spec, inputs: [inputs[0], { name: 'face', key: 'x/a' }] } }),
      /key/,
    ],
    [
      'a key that climbs',
      (job) => ({ ...job, spec: { ...job.spec, inputs: [inputs[0], { name: 'face', key: 'api/a/../b' }] } }),
      /key/,
    ],
    ['a priority out of bounds', (job) => ({ ...job, spec: { ...job.spec, priority: 5_000 } }), /priority/],
    ['a field that does not exist', (job) => ({ ...job, spec: { ...job.spec, colour: 'red' } }), /colour/],
  ])('%s', async (_name, change, message) => {
    await expect(kubectl.apply(change(renderJob(inputs)))).rejects.toThrow(message);
  });

  test('changing what the work is', async () => {
    const job = renderJob(inputs, { suspend: true });
    await kubectl.apply(job);
    const patch = (spec: unknown) => kubectl.patch('renderjob', job.metadata.name, { spec });
    await expect(patch({ capability: 'avatar' })).rejects.toThrow(/immutable/);
    await expect(patch({ inputs: [inputs[0], { name: 'face', key: 'api/other' }] })).rejects.toThrow(
      /immutable/,
    );
    await expect(patch({ account: 'someone' })).rejects.toThrow(/immutable/);
    await patch({ priority: 7 });
    await kubectl(['delete', 'renderjob', job.metadata.name, '--timeout=60s']);
  });
});

describe('reads well', () => {
  test('kubectl explain renderjob.spec tells what every field is for', async () => {
    const text = await kubectl(['explain', 'renderjob.spec']);
    for (const field of [
      'capability',
      'inputs',
      'priority',
      'suspend',
      'backoffLimit',
      'ttlSecondsAfterFinished',
    ]) {
      expect(text).toMatch(new RegExp(`^\\s+${field}\\s+<[^>]+>`, 'm'));
    }
    expect(text).not.toContain('<no description>');
  });

  test('kubectl get rj: capability, phase, progress, agent, age', async () => {
    const job = renderJob(inputs);
    await kubectl.apply(job);
    await untilPhase(kubectl, job.metadata.name, 'Succeeded');
    const [head = '', row = ''] = (await kubectl(['get', 'rj', job.metadata.name])).split('\n');
    expect(head.trim().split(/\s+/)).toEqual(['NAME', 'CAPABILITY', 'PHASE', 'PROGRESS', 'AGENT', 'AGE']);
    expect(row).toMatch(/face-swap-image\s+Succeeded\s+100%\s+\S+\s+\d+[sm]/);
    const [wide = ''] = (await kubectl(['get', 'rj', job.metadata.name, '-o', 'wide'])).split('\n');
    expect(wide).toMatch(/PLACE\s+LEFT\s+ATTEMPT\s+REASON\s+MESSAGE/);
  });

  test('kubectl get semblance: jobs and agents in one list', async () => {
    await eventually('both in one list', async () => {
      const text = await kubectl(['get', 'semblance']);
      expect(text).toMatch(/^renderjob\.semblance\.dev\//m);
      expect(text).toMatch(/^gpuagent\.semblance\.dev\/\S+\s+True/m);
      return true;
    });
  });

  test('kubectl get ga: the agent says its slots and engines', async () => {
    const list = JSON.parse(await kubectl(['get', 'ga', '-o', 'json'])) as {
      items: { status: { slots: number; engines: { name: string; capabilities: { name: string }[] }[] } }[];
    };
    const [agent] = list.items;
    expect(agent?.status.slots).toBeGreaterThan(0);
    const names = agent?.status.engines.flatMap(({ capabilities }) => capabilities.map(({ name }) => name));
    expect(names).toContain('face-swap-image');
  });
});
