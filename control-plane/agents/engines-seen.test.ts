import { LEASE_RESOURCE } from '@semblance/common/kube/index';
import { AGENTPOOL_RESOURCE } from '@semblance/crds/gen/agentpools';
import { GPUAGENT_RESOURCE } from '@semblance/crds/gen/gpuagents';
import {
  makeAccount,
  photoSwap,
  startTestSystem,
  type TestSystem,
  untilTrue,
  upload,
} from '@semblance/testkit/control-plane/control-plane';
import { refusing, startScriptedOperator } from '@semblance/testkit/control-plane/scripted-operator';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ADDRESS_ANNOTATION, OPERATOR_LEASE } from '../sessions/allocator.ts';

let system: TestSystem;
beforeAll(async () => {
  system = await startTestSystem();
});
afterAll(() => system.close());

/** Registers an agent with these capabilities. */
async function register(name: string, ...capabilities: string[]) {
  const metadata = { name, namespace: system.kubernetes.namespace };
  await system.kube.apply(GPUAGENT_RESOURCE, { metadata, spec: {} });
  const engines = [
    { name: 'test', version: '1', capabilities: capabilities.map((each) => ({ name: each, slots: 1 })) },
  ];
  await system.kube.apply(GPUAGENT_RESOURCE, { metadata, status: { slots: 1, engines } } as never, {
    subresource: 'status',
  });
  return metadata;
}
async function enabled() {
  const { control, ask } = system.client;
  const { capabilities } = await ask(control.getPricing.bind(control), { caller: undefined });
  return capabilities.filter((each) => each.enabled).map(({ capability }) => capability);
}
const untilEnabled = (...names: string[]) =>
  untilTrue(async () => JSON.stringify(await enabled()) === JSON.stringify(names), `enabled: ${names}`);

test('a capability is offered from the moment an agent that offers it is first seen, and stays', async () => {
  const { caller } = await makeAccount(system);
  const { control, ask, admin, asAdmin } = system.client;
  const { fileKey } = await upload(system, caller);
  const lipSync = {
    ...photoSwap(caller, fileKey),
    capability: 'lip-sync',
    inputs: { video: fileKey, audio: fileKey },
  };
  const submit = () => ask(control.submitJob.bind(control), lipSync);
  expect(await enabled()).toEqual(['face-swap-image']);
  await expect(submit()).rejects.toMatchObject({ code: 'capability_unavailable' });

  const first = await register('first', 'lip-sync', 'not-a-capability');
  await untilEnabled('face-swap-image', 'lip-sync');
  // Now the inputs are at fault: a picture is no video.
  await expect(submit()).rejects.toMatchObject({ code: 'invalid_input' });

  // An upgrade of every agent: for a while there is none, and a control plane starts that sees none.
  await system.kube.delete(GPUAGENT_RESOURCE, first);
  const [before] = await system.database.sql`select engine_seen_at from capabilities where name = 'lip-sync'`;
  await system.startPlane();
  await register('second', 'lip-sync', 'avatar');
  await untilEnabled('face-swap-image', 'avatar', 'lip-sync');
  expect([
    ...(await system.database.sql`select engine_seen_at from capabilities where name = 'lip-sync'`),
  ]).toEqual([before]);

  // The owner's switch takes precedence, and a new agent does not turn it on.
  await asAdmin(admin.switchCapability.bind(admin), { capability: 'lip-sync', on: false });
  await register('third', 'lip-sync');
  await untilEnabled('face-swap-image', 'avatar');
  await expect(submit()).rejects.toMatchObject({ code: 'capability_unavailable' });
});

// A caller gives up a capability that is off, and comes back to one that is starting up.
test('a live capability is offered from the moment its first slots warm up, and who opens a session is told to come back', async () => {
  const { namespace } = system.kubernetes;
  const operator = await startScriptedOperator(refusing('capacity_warming'));
  const annotations = { [ADDRESS_ANNOTATION]: operator.address };
  await system.kube.apply(LEASE_RESOURCE, {
    metadata: { name: OPERATOR_LEASE, namespace, annotations },
    spec: { holderIdentity: 'scripted' },
  });
  const tell = async (slots: number, warming: boolean) => {
    const metadata = { name: 'cold', namespace };
    await system.kube.apply(GPUAGENT_RESOURCE, { metadata, spec: {} });
    const live = [
      { name: 'voice', slots, warming },
      { name: 'not-a-capability', slots: 1 },
    ];
    const status = { slots: 1, live, engines: [] };
    await system.kube.apply(GPUAGENT_RESOURCE, { metadata, status } as never, { subresource: 'status' });
  };
  const { caller } = await makeAccount(system, 1);
  const { control, ask } = system.client;
  const open = () =>
    ask(control.openSession.bind(control), {
      caller,
      capability: 'voice',
      durationMinutes: 1,
      prompt: '',
      voiceId: undefined,
    });

  // Neither warm nor warming: its models do not load, or it is ending.
  await tell(0, false);
  // Sent after the first, whose effect has come by then.
  await register('fourth', 'motion-control');
  await untilEnabled('face-swap-image', 'motion-control', 'avatar');
  await expect(open()).rejects.toMatchObject({ code: 'capability_unavailable' });

  await tell(0, true);
  await untilEnabled('face-swap-image', 'motion-control', 'avatar', 'voice');
  // The words of the operator, which knows that an agent warms up.
  await expect(open()).rejects.toMatchObject({ code: 'capacity_warming' });
  await operator.close();
});

test('a pool that starts agents for waiting work stands for them, one of fixed size does not', async () => {
  const template = { spec: { containers: [{ name: 'agent', image: 'agent:1' }] } };
  const create = (name: string, spec: object) =>
    system.kube.create(AGENTPOOL_RESOURCE, {
      metadata: { name, namespace: system.kubernetes.namespace },
      spec: { template, ...spec },
    });
  await create('fixed', { replicas: 0, capabilities: ['full-live-swap'] });
  await create('from-nothing', { autoscaling: { maxReplicas: 1 }, capabilities: ['face-swap'] });
  await untilTrue(async () => (await enabled()).includes('face-swap'), 'face-swap is offered');
  expect(await enabled()).not.toContain('full-live-swap');
});

describe('options of engines that callers may give', () => {
  const SEED = { name: 'seed', type: 'integer', minimum: 0, description: 'Seed.', callers: true };
  const STEPS = {
    name: 'steps',
    type: 'integer',
    minimum: 1,
    maximum: 50,
    description: 'Steps.',
    callers: true,
  };
  const kept = async () => {
    const [row] = await system.database.sql<{ options: { name: string; maximum?: number }[] | null }[]>`
      select engine_options as options from capabilities where name = 'character-swap'`;
    return row?.options?.map(({ name, maximum }) => (maximum === undefined ? name : `${name} ${maximum}`));
  };
  const untilKept = (...names: string[]) =>
    untilTrue(async () => JSON.stringify(await kept()) === JSON.stringify(names), `kept: ${names}`);
  async function tell(name: string, options: object[], status: object = {}): Promise<object> {
    const metadata = { name, namespace: system.kubernetes.namespace };
    await system.kube.apply(GPUAGENT_RESOURCE, { metadata, spec: {} });
    const capabilities = [{ name: 'character-swap', slots: 1, options }];
    const engines = [{ name: 'e', version: '1', capabilities }];
    await system.kube.apply(
      GPUAGENT_RESOURCE,
      { metadata, status: { slots: 1, engines, ...status } } as never,
      {
        subresource: 'status',
      },
    );
    return metadata;
  }

  test('are those that all agents let through, and stay while there is none', async () => {
    await tell('open-1', [SEED, STEPS, { ...STEPS, name: 'own', callers: false }]);
    await untilKept('seed', 'steps 50');
    // A job may go to any agent, so the narrower one decides.
    await tell('open-2', [{ ...STEPS, maximum: 20 }]);
    await untilKept('steps 20');
    await tell('open-2', [{ ...STEPS, maximum: 20 }], { draining: true });
    await untilKept('seed', 'steps 50');
    await tell('open-2', [
      SEED,
      { name: 'tint', type: 'colour', description: 'Of a later release.', callers: true },
    ]);
    await untilKept('seed');
    for (const name of ['open-1', 'open-2'])
      await system.kube.delete(GPUAGENT_RESOURCE, { name, namespace: system.kubernetes.namespace });
    await system.startPlane();
    await tell('open-3', [STEPS]);
    await untilKept('steps 50');
    await system.kube.delete(GPUAGENT_RESOURCE, { name: 'open-3', namespace: system.kubernetes.namespace });
    // Sent after the end of the last one, whose effect has come by then.
    await register('later', 'face-swap');
    await untilTrue(async () => (await enabled()).includes('face-swap'), 'face-swap is offered');
    expect(await kept()).toEqual(['steps 50']);
  });
});
