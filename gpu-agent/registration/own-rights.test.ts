import { CERTIFICATE_ANNOTATION } from '@semblance/common/agent-certificate';
import { createAuthority } from '@semblance/common/grpc/tls/authority';
import { createOwnCertificate } from '@semblance/common/grpc/tls/own-certificate';
import { openTls } from '@semblance/common/grpc/tls/tls';
import { LEASE_RESOURCE } from '@semblance/common/kube/index';
import { silentLogger } from '@semblance/common/logging';
import { GPUAGENT_RESOURCE } from '@semblance/crds/gen/gpuagents';
import { writeTlsFiles } from '@semblance/local/stack/service-certificates';
import { installRights, type Rights } from '@semblance/testkit/chart/rights';
import { createHarness, type Harness } from '@semblance/testkit/gpu-agent/harness';
import { eventually } from '@semblance/testkit/stack/eventually';
import { afterAll, beforeAll, expect, it } from 'vitest';

let harness: Harness;
let rights: Rights;

beforeAll(async () => {
  [harness, rights] = await Promise.all([createHarness(), installRights()]);
});
afterAll(async () => {
  await harness?.close();
  await rights?.close();
});

it('an agent with the rights that the chart gives it registers, states its certificate, and leaves', async () => {
  const { admin, namespace } = rights;
  const pod = await rights.pod('agents-x7k2p');
  const other = await rights.pod('agents-other');
  const ref = { namespace, name: 'agents-x7k2p' };
  await eventually('the policy to be in force', async () => {
    const spec = { holderIdentity: 'x' };
    const metadata = { namespace, name: 'agents-nobody' };
    const refusal = await other.client.create(LEASE_RESOURCE, { metadata, spec }).catch(String);
    return String(refusal).includes('ValidatingAdmissionPolicy') || undefined;
  });

  const dir = `${harness.dir}/tls`;
  const authority = await createAuthority();
  await writeTlsFiles(dir, await authority.issue({ names: ['agent.semblance.internal'] }));
  const own = await createOwnCertificate('agent');
  const tls = await openTls({ dir, component: 'agent', own, logger: silentLogger() });
  const agent = await harness.agent({
    tls,
    env: {
      KUBECONFIG: pod.kubeconfigPath,
      SEMBLANCE_NAMESPACE: namespace,
      SEMBLANCE_AGENT_NAME: ref.name,
      SEMBLANCE_POD_NAME: ref.name,
      SEMBLANCE_POD_UID: pod.uid,
    },
  });
  const read = await admin.get(GPUAGENT_RESOURCE, ref);
  expect(read.metadata.annotations?.[CERTIFICATE_ANNOTATION]).toBe(own.certificate.toString());
  expect(read.metadata.ownerReferences).toMatchObject([{ kind: 'Pod', uid: pod.uid }]);
  expect(read.status).toMatchObject({ incarnation: agent.incarnation, address: agent.address });

  // A person drains it and ends that; its own writes go on.
  await admin.mergePatch(GPUAGENT_RESOURCE, ref, { spec: { drain: true } });
  await admin.mergePatch(GPUAGENT_RESOURCE, ref, { status: { slots: 7 } }, { subresource: 'status' });
  await eventually('its own word again', async () => {
    const { spec, status } = await admin.get(GPUAGENT_RESOURCE, ref);
    return (spec.drain === true && status?.slots === 2) || undefined;
  });
  await admin.delete(GPUAGENT_RESOURCE, ref);
  await eventually('its GpuAgent again', () => admin.find(GPUAGENT_RESOURCE, ref));
  expect(agent.isOver()).toBe(false);

  await agent.close();
  tls.close();
  expect((await admin.get(GPUAGENT_RESOURCE, ref)).status?.draining).toBe(true);
  expect((await admin.get(LEASE_RESOURCE, ref)).spec?.holderIdentity ?? '').toBe('');
});
