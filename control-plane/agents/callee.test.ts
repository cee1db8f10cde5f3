import { CERTIFICATE_ANNOTATION } from '@semblance/common/agent-certificate';
import { createReflector } from '@semblance/common/kube/index';
import { silentLogger } from '@semblance/common/logging';
import { GPUAGENT_RESOURCE, type GpuAgent } from '@semblance/crds/gen/gpuagents';
import { installRights, type Rights } from '@semblance/testkit/chart/rights';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createCallees } from './callee.ts';

const NEVER = new AbortController().signal;
let rights: Rights;
let pod: Awaited<ReturnType<Rights['pod']>>;
let callees: ReturnType<typeof createCallees>;

beforeAll(async () => {
  rights = await installRights();
  const { namespace, admin } = rights;
  pod = await rights.pod('agents-aaaaa');
  await say('agents-aaaaa', { podIP: '10.1.2.3', podIPs: [{ ip: '10.1.2.3' }, { ip: 'fd00::3' }] });
  await rights.pod('agents-young');
  // The rights are those that the chart gives the control plane.
  const { client } = await rights.component('control-plane');
  const agents = createReflector({
    client: admin,
    resource: GPUAGENT_RESOURCE,
    namespace,
    logger: silentLogger(),
  });
  callees = createCallees({ kube: client, namespace, agents });
});
afterAll(() => rights?.close());

const say = (name: string, status: object) =>
  rights.admin.mergePatch(
    { group: '', version: 'v1', plural: 'pods', kind: 'Pod' },
    { name, namespace: rights.namespace },
    { status } as object,
    { subresource: 'status' },
  );

/** Returns an agent as its GpuAgent has it. */
function agent(name: string, address: string, owner: string | undefined = pod.uid): GpuAgent {
  const ownerReferences = owner ? [{ apiVersion: 'v1', kind: 'Pod', name, uid: owner }] : [];
  return {
    apiVersion: 'semblance.dev/v1alpha1',
    kind: 'GpuAgent',
    metadata: { name, ownerReferences },
    spec: {},
    status: { incarnation: 'x', address },
  };
}
const check = (of: GpuAgent) => callees.checkAddress(of, NEVER);

describe('the address of an agent', () => {
  it.each(['10.1.2.3:9092', '10.1.2.3:1', '[fd00::3]:9092', 'fd00::3:9092'])(
    'is called when it is of its Pod: %s',
    async (address) => {
      await check(agent('agents-aaaaa', address));
    },
  );

  it.each([
    '10.9.9.9:9092',
    '10.1.2.30:9092',
    '10.1.2.3.example.com:9092',
    'localhost:9092',
    '127.0.0.1:5432',
    '[::ffff:10.1.2.3]:9092',
    ':9092',
    '10.1.2.3',
  ])('is not called when it is another: %s', async (address) => {
    await expect(check(agent('agents-aaaaa', address))).rejects.toThrow(
      `it states the address ${address}, and its Pod agents-aaaaa has 10.1.2.3`,
    );
    // Its Pod counts although the agent keeps it quiet.
    await expect(check(agent('agents-aaaaa', address, ''))).rejects.toThrow('it states the address');
  });

  it('is not called when its Pod is gone, is another, or has none yet', async () => {
    await expect(check(agent('agents-gone', '10.1.2.3:9092'))).rejects.toThrow(
      'Pod agents-gone is not there',
    );
    await expect(check(agent('agents-aaaaa', '10.1.2.3:9092', 'another'))).rejects.toThrow('is not there');
    await expect(check(agent('agents-young', '10.1.2.3:9092', ''))).rejects.toThrow('has no address yet');
  });

  it('is free for an agent without a Pod, which a person has registered', async () => {
    await check(agent('by-hand', 'gpu.example.com:9092', ''));
  });
});

describe('the certificate of an agent', () => {
  it('is that of the process that was asked for, and of no other', async () => {
    const metadata = { name: 'agents-aaaaa', namespace: rights.namespace };
    const annotations = { [CERTIFICATE_ANNOTATION]: 'its own' };
    await rights.admin.apply(GPUAGENT_RESOURCE, { metadata: { ...metadata, annotations }, spec: {} });
    const status = { incarnation: 'x', address: '10.1.2.3:9092' };
    await rights.admin.apply(GPUAGENT_RESOURCE, { metadata, status }, { subresource: 'status' });
    expect(await callees.certificateOf('agents-aaaaa', 'x')).toBe('its own');
    expect(await callees.certificateOf('agents-aaaaa', 'y')).toBeUndefined();
    expect(await callees.certificateOf('nobody', 'x')).toBeUndefined();
  });
});
