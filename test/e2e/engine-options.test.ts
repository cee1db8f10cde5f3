import { expectError } from '@semblance/testkit/stack/expect-error';
import type { Kubectl } from '@semblance/testkit/stack/kubectl';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { renderJob, swapInputs } from '@semblance/testkit/stack/render-jobs';
import { type Account, type Stack, stackAt } from '@semblance/testkit/stack/stack';
import { type StackProcess, startStackProcess, WITHOUT_LIVE } from '@semblance/testkit/stack/stack-process';
import { afterAll, beforeAll, expect, test } from 'vitest';

/** Options of the engine from the owner's setting to the record of a job, on a stack of its own. */
const OWNER = {
  'face-swap-image': { set: { likeness: 0.1 }, callers: ['likeness'] },
  'face-swap': { set: { likeness: 0.1 } },
  'character-swap': { set: { steps: 20 } },
};
let running: StackProcess;
let stack: Stack;
let kubectl: Kubectl;
let account: Account;
let body: { image_key: string; face_key: string };

beforeAll(async () => {
  const env = { ...WITHOUT_LIVE, SEMBLANCE_ENGINE_OPTIONS: JSON.stringify(OWNER) };
  running = await startStackProcess({ env });
  stack = stackAt(running.file);
  kubectl = stack.kubectl;
  account = await stack.newAccount();
  const [image_key, face_key] = await Promise.all([
    account.api.upload(ASTRONAUT),
    account.api.upload(ADMIRAL),
  ]);
  body = { image_key, face_key };
}, 240_000);
afterAll(() => running?.close(), 200_000);

const submit = (more: object, path = '/face-swap-image') => account.api.post(path, { ...body, ...more });
const specOf = async (id: string) => JSON.parse(await kubectl(['get', 'renderjob', id, '-o', 'json']));

test('an option of a submit reaches the engine, and the record and the RenderJob tell of it', async () => {
  const answer = await submit({ engine_options: { likeness: 1 } });
  expect(answer.status, answer.text).toBe(200);
  const { id } = answer.body as { id: string };
  const job = await account.api.finished(id);
  expect(job).toMatchObject({ status: 'succeeded', details: { engine_options: { likeness: '1' } } });
  const { spec, status } = await specOf(id);
  expect(spec.engineOptions).toEqual({ likeness: '1' });
  expect(status.output.findings.options).toEqual({ likeness: '1' });

  const plain = await account.api.finished((await account.api.swap(body)).id);
  expect(plain.details).toMatchObject({ engine_options: { likeness: '0.1' } });
  const files = await Promise.all(
    [job, plain].map(async ({ output_url }) =>
      Buffer.from(await (await fetch(output_url ?? '')).arrayBuffer()),
    ),
  );
  expect(Buffer.compare(...(files as [Buffer, Buffer]))).not.toBe(0);
});

test('an option that is not let through, or out of bounds, is refused without a hold and a job', async () => {
  const before = await account.api.balance();
  const calls = ((await account.api.get('/usage')).body as unknown[]).length;
  const cases: [object, string][] = [
    [{ likeness: 1.5 }, 'engine_options.likeness must be a number from 0 to 1'],
    [{ likeness: '' }, 'engine_options.likeness must be a number from 0 to 1'],
    [{ steps: 3 }, 'engine_options.steps is not among the options'],
  ];
  for (const [engine_options, message] of cases) {
    for (const answer of [
      await submit({ engine_options }),
      await submit({ capability: 'face-swap-image', engine_options }, '/estimate'),
    ]) {
      const told = expectError(answer, 'invalid_input');
      expect(told).toContain(message);
      expect(told).toContain('likeness (a number from 0 to 1)');
    }
  }
  expect(await account.api.balance()).toEqual(before);
  expect((await account.api.get('/usage')).body).toHaveLength(calls);
});

test('what the owner keeps is no option of callers', async () => {
  const answer = await account.api.post('/face-swap', {
    ...{ video_key: 'api/any', face_key: body.face_key, engine_options: { likeness: 0.2 } },
  });
  expectError(answer, 'invalid_input');
  expect(answer.text).toContain('This capability has no options on this installation');
});

test('a capability with options that the engine has not is not offered, and the agent says why', async () => {
  const unavailable = await kubectl(['get', 'gpuagents', '-o', 'jsonpath={.items[0].status.unavailable}']);
  expect(JSON.parse(unavailable)).toContainEqual({
    name: 'character-swap',
    message:
      'SEMBLANCE_ENGINE_OPTIONS, character-swap: the engine builtin has no option steps for this capability: it has likeness (a number from 0 to 1).',
  });
});

test('a RenderJob that is made by hand is held to the same options', async () => {
  const inputs = await swapInputs(account.api);
  const job = renderJob(inputs, { engineOptions: { likeness: '7' } });
  await kubectl.apply(job);
  await kubectl(['wait', '--for=condition=Failed', `renderjob/${job.metadata.name}`, '--timeout=60s']);
  const { status } = await specOf(job.metadata.name);
  expect(status.failure).toEqual({
    code: 'processing_failed',
    message:
      'The engine option likeness must be a number from 0 to 1: face-swap-image takes likeness (a number from 0 to 1).',
  });
});
