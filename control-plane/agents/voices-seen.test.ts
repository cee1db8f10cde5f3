import { AGENTPOOL_RESOURCE, type AgentPool } from '@semblance/crds/gen/agentpools';
import { GPUAGENT_RESOURCE } from '@semblance/crds/gen/gpuagents';
import type { Speech } from '@semblance/engine-api/speech';
import {
  type callerOf,
  makeAccount,
  photoSwap,
  startTestSystem,
  type TestSystem,
  untilTrue,
  upload,
} from '@semblance/testkit/control-plane/control-plane';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

let system: TestSystem;
let caller: ReturnType<typeof callerOf>;
let image: string;

beforeAll(async () => {
  system = await startTestSystem();
  ({ caller } = await makeAccount(system, 1_000));
  image = (await upload(system, caller)).fileKey;
  await system.database.sql`select note_engines(array['avatar'])`;
});
afterAll(() => system.close());

const names = new Set<string>();
const pools = new Set<string>();
beforeEach(async () => {
  for (const name of names) await remove(name);
  for (const name of pools)
    await system.kube.delete(AGENTPOOL_RESOURCE, { name, namespace: system.kubernetes.namespace });
  pools.clear();
});

const speechOf = (...ids: string[]): Speech => ({
  voices: ids.map((id) => ({ id, language: 'en', gender: 'female' })),
  languages: ['en', 'de'],
});

/** Registers an agent that offers Avatar with these voices; undefined: it says nothing of them. */
async function register(name: string, speech: Speech | undefined, more: object = {}) {
  const metadata = { name, namespace: system.kubernetes.namespace };
  names.add(name);
  await system.kube.apply(GPUAGENT_RESOURCE, { metadata, spec: {} });
  const capabilities = [{ name: 'avatar', slots: 1, ...(speech ? { speech } : {}) }];
  const engines = [{ name: 'test', version: '1', capabilities }];
  await system.kube.apply(GPUAGENT_RESOURCE, { metadata, status: { slots: 1, engines, ...more } } as never, {
    subresource: 'status',
  });
}

async function remove(name: string) {
  names.delete(name);
  await system.kube.delete(GPUAGENT_RESOURCE, { name, namespace: system.kubernetes.namespace });
}

async function pool(name: string, capabilities?: AgentPool['spec']['capabilities']) {
  pools.add(name);
  const template = { spec: { containers: [{ name: 'agent', image: 'agent:1' }] } };
  await system.kube.create(AGENTPOOL_RESOURCE, {
    metadata: { name, namespace: system.kubernetes.namespace },
    spec: { template, replicas: 0, ...(capabilities ? { capabilities } : {}) },
  });
}

const listed = async () => {
  const { control, ask } = system.client;
  return (await ask(control.listAvatarVoices.bind(control), { caller })).voices.map(({ id }) => id).sort();
};
const untilListed = (...ids: string[]) =>
  untilTrue(async () => JSON.stringify(await listed()) === JSON.stringify(ids), `listed: ${ids}`);
const kept = async () =>
  [
    ...(await system.database.sql<{ source: string }[]>`select source from announced_voices order by source`),
  ].map(({ source }) => source);

const avatar = (parameters: Record<string, string>, idempotencyKey?: string) => ({
  ...photoSwap(caller, image),
  capability: 'avatar',
  inputs: { image },
  parameters: { script: 'Hello.', ...parameters },
  idempotencyKey,
});
const submit = (parameters: Record<string, string>, key?: string) => {
  const { control, ask } = system.client;
  return ask(control.submitJob.bind(control), avatar(parameters, key));
};
const estimate = (parameters: Record<string, string>) => {
  const { control, ask } = system.client;
  return ask(control.estimateJob.bind(control), { ...avatar(parameters), inspect: false });
};
async function books() {
  const { control, ask } = system.client;
  const { balanceMicros, heldMicros } = await ask(control.getBalance.bind(control), { caller });
  const [row] = await system.database.sql<{ n: bigint }[]>`select count(*) as n from jobs`;
  return { balanceMicros, heldMicros, jobs: row?.n };
}

test('before any agent was seen, and beside one that says nothing of its voices, none is refused', async () => {
  await submit({ voice_id: 'whatever', language: 'tlh' });
  expect(await listed()).toEqual([]);
  await register('gpu-a', speechOf('amy'));
  await untilListed('amy');
  await expect(submit({ voice_id: 'whatever' })).rejects.toMatchObject({ code: 'invalid_input' });
  await register('gpu-b', undefined);
  await untilListed();
  await submit({ voice_id: 'whatever' });
  await remove('gpu-b');
  await untilListed('amy');
  // An agent of another release says what this one does not understand.
  await register('gpu-b', { voices: [{ id: 'x', language: 'en', variants: 'none' }], languages: ['en'] });
  await untilListed();
});

test('a voice or a language that no agent has is refused with the valid ones, without a hold and a job', async () => {
  await register('gpu-a', speechOf('amy', 'slt'));
  await untilListed('amy', 'slt');
  const before = await books();
  for (const [parameters, message] of [
    [{ voice_id: 'calm-alto' }, '`voice_id` names no voice that an agent has. There are amy, slt.'],
    [
      { voice_id: 'SLT' },
      '`voice_id` names no voice that an agent has; did you mean slt? There are amy, slt.',
    ],
    [
      { language: 'tlh' },
      '`language` is none that an agent speaks; it is a language tag such as en. There are en, de.',
    ],
  ] as const) {
    const refused = { code: 'invalid_input', message };
    await expect(submit(parameters, 'k')).rejects.toMatchObject(refused);
    await expect(estimate(parameters)).rejects.toMatchObject(refused);
  }
  await expect(submit({ voice_id: 'x', language: 'x' })).rejects.toMatchObject({
    message: expect.stringMatching(/voice_id[\s\S]*language/),
  });
  expect(await books()).toEqual(before);
  // Right ones are taken, under the key that the refused ones have not used up.
  await submit({ voice_id: 'amy', language: 'de-AT' }, 'k');
  await submit({});
  await submit({ voice_gender: 'male' });
});

test('a voice that one agent of several has is taken', async () => {
  await register('gpu-a', speechOf('amy'));
  await register('gpu-b', speechOf('slt'));
  await untilListed('amy', 'slt');
  for (const voice_id of ['amy', 'slt']) await submit({ voice_id });
});

test('while no agent is up the last ones count, also for a control plane that starts then', async () => {
  await register('gpu-a', speechOf('amy'));
  await untilListed('amy');
  await register('gpu-a', speechOf('amy'), { draining: true });
  await remove('gpu-a');
  await system.startPlane();
  await expect(submit({ voice_id: 'slt' })).rejects.toMatchObject({ code: 'invalid_input' });
  await submit({ voice_id: 'amy' });
  expect(await listed()).toEqual(['amy']);
  await register('gpu-c', speechOf('slt'));
  await untilListed('slt');
});

test('a pool without agents keeps its voices beside others, until it is gone or offers no Avatar', async () => {
  await pool('small');
  await pool('large');
  await register('small-aaaaa', speechOf('slt'));
  await register('large-bbbbb', speechOf('amy'));
  await untilListed('amy', 'slt');
  await remove('large-bbbbb');
  // Sent after the end of the agent, whose effect has come by then.
  await register('small-aaaaa', speechOf('slt', 'rms'));
  await untilListed('amy', 'rms', 'slt');
  await submit({ voice_id: 'amy' });
  await system.kube.mergePatch(
    AGENTPOOL_RESOURCE,
    { name: 'large', namespace: system.kubernetes.namespace },
    { spec: { capabilities: ['lip-sync'] } },
  );
  await untilListed('rms', 'slt');
  expect(await kept()).toEqual(['small']);
  await pool('other', ['avatar']);
  await register('other-ccccc', speechOf('kal'));
  await untilListed('kal', 'rms', 'slt');
  await remove('other-ccccc');
  await system.kube.delete(AGENTPOOL_RESOURCE, { name: 'other', namespace: system.kubernetes.namespace });
  pools.delete('other');
  await untilListed('rms', 'slt');
});

test('a repeat finds its job whatever voices there are by now', async () => {
  await register('gpu-a', speechOf('amy'));
  await untilListed('amy');
  const { id } = await submit({ voice_id: 'amy' }, 'again');
  await register('gpu-a', speechOf('slt'));
  await untilListed('slt');
  expect(await submit({ voice_id: 'amy' }, 'again')).toMatchObject({ id, replayed: true });
  await expect(submit({ voice_id: 'amy' }, 'new')).rejects.toMatchObject({ code: 'invalid_input' });
});

test('of many voices a message names some and says where all are', async () => {
  const ids = Array.from({ length: 100 }, (_, i) => `voice-${String(i).padStart(3, '0')}`);
  await register('gpu-a', speechOf(...ids));
  await untilListed(...ids);
  await expect(submit({ voice_id: 'x' })).rejects.toMatchObject({
    message: expect.stringMatching(/voice-029 and 70 more; GET \/voices\?for=avatar lists all\.$/),
  });
});
