import { LEASE_RESOURCE } from '@semblance/common/kube/index';
import { RENDERJOB_RESOURCE } from '@semblance/crds/gen/renderjobs';
import { startTcpProxy } from '@semblance/testkit/common/tcp-proxy';
import {
  makeAccount,
  startTestSystem,
  type TestSystem,
  upload,
} from '@semblance/testkit/control-plane/control-plane';
import { createHarness, type Harness } from '@semblance/testkit/operator/harness';
import { eventually } from '@semblance/testkit/stack/eventually';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';

/** A control plane, an operator and a scripted agent, each real but for the engine. */
const SCRIPT = 'What nobody who lists jobs needs to read.';

let system: TestSystem;
let harness: Harness;

beforeAll(async () => {
  system = await startTestSystem();
});
afterAll(() => system?.close());
beforeEach(async () => {
  harness = await createHarness(system.kubernetes);
});
afterEach(() => harness.close());

const agentNamed = (name: string) => harness.agent({ name, capabilities: ['avatar'], script: () => {} });
const controlAddress = () => `127.0.0.1:${system.plane.port}`;

async function submit(): Promise<string> {
  const { control, ask } = system.client;
  const { caller } = await makeAccount(system);
  const { fileKey } = await upload(system, caller);
  const { id } = await ask(control.submitJob.bind(control), {
    caller,
    capability: 'avatar',
    inputs: { image: fileKey },
    parameters: { script: SCRIPT, voice_id: 'calm-alto' },
    engineOptions: {},
    callbackUrl: undefined,
    idempotencyKey: undefined,
  });
  return id;
}
const renderJob = (name: string) =>
  eventually('the RenderJob', () =>
    harness.client.find(RENDERJOB_RESOURCE, { name, namespace: harness.namespace }),
  );

it('what an Avatar says reaches its agent, and stands in no resource', async () => {
  const agent = await agentNamed('speaker');
  await harness.operator({ controlAddress: controlAddress() });
  const id = await submit();
  const made = await renderJob(id);
  expect(made.spec.parameters).toEqual({
    voice_id: 'calm-alto',
    script_sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
  });
  await harness.until(id, ({ status }) => status?.phase === 'Running');
  expect(agent.starts[0]?.parameters).toEqual({ script: SCRIPT, voice_id: 'calm-alto' });
  expect(JSON.stringify(await renderJob(id))).not.toContain('nobody who lists');
  await agent.kill();
});

it('an operator that does not ask gets the text in the resource, as before', async () => {
  const agent = await agentNamed('older');
  await harness.operator();
  await eventually('an operator to lead', async () => {
    const ref = { name: 'semblance-operator', namespace: harness.namespace };
    const lease = await harness.client.find(LEASE_RESOURCE, ref);
    return lease?.spec?.holderIdentity && !lease.metadata.annotations?.['semblance.dev/reads-texts'];
  });
  // The control plane has seen it, too, when it names the text.
  await eventually('a RenderJob with its text', async () => {
    const { spec } = await renderJob(await submit());
    return spec.parameters?.script === SCRIPT || undefined;
  });
  await eventually(
    'the agent to have it',
    () => agent.starts.some(({ parameters }) => parameters.script === SCRIPT) || undefined,
  );
  await agent.kill();
});

it('an Avatar waits while no control plane answers, and begins once one does', async () => {
  const way = await startTcpProxy({ port: system.plane.port });
  way.set('refuse');
  const agent = await agentNamed('patient');
  await harness.operator({ controlAddress: `127.0.0.1:${way.port}` });
  await eventually('an operator to lead that asks', async () => {
    const ref = { name: 'semblance-operator', namespace: harness.namespace };
    const lease = await harness.client.find(LEASE_RESOURCE, ref);
    return lease?.metadata.annotations?.['semblance.dev/reads-texts'];
  });
  const id = await submit();
  await harness.until(id, ({ status }) => status?.agent === 'patient');
  expect(agent.starts).toEqual([]);
  way.set('open');
  await harness.until(id, ({ status }) => status?.phase === 'Running');
  expect(agent.starts.map(({ parameters }) => parameters.script)).toEqual([SCRIPT]);
  await agent.kill();
  await way.close();
});

it('a job made by kubectl keeps its text, and one with a digest of nothing fails', async () => {
  const agent = await agentNamed('plain');
  await harness.operator({ controlAddress: controlAddress() });
  const inputs = [{ name: 'image', key: 'api/own/portrait.jpg' }];
  const capability = 'avatar' as const;
  await harness.job('by-hand', { capability, inputs, parameters: { script: 'Hello.' } });
  await harness.until('by-hand', ({ status }) => status?.phase === 'Running');
  expect(agent.starts.at(-1)?.parameters).toEqual({ script: 'Hello.' });
  const parameters = { script_sha256: 'ab'.repeat(32) };
  await harness.job('nothing', { capability, inputs, parameters, backoffLimit: 0 });
  const failed = await harness.until('nothing', ({ status }) => status?.phase === 'Failed');
  expect(JSON.stringify(failed.status?.conditions)).toContain(
    'the text of the parameter script_sha256 is not there',
  );
  await agent.kill();
});
