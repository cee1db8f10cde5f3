import { find, refusal, render } from '@semblance/testkit/chart/chart';
import { describe, expect, it } from 'vitest';

describe('what cannot work is refused', () => {
  it.each([
    [{ 'gateway.replicas': 2 }, 'More than one gateway cannot share the object volume'],
    [{ 'gateway.replicas': 2, 'objects.volume.accessMode': 'ReadWriteMany' }, 'this would be an emptyDir'],
    [{ 'gateway.autoscaling.enabled': true }, 'cannot share the object volume'],
    [{ 'ingress.enabled': true }, 'ingress.host'],
    [{ 'httpRoute.enabled': true }, 'httpRoute.parentRefs'],
    [{ 'httpRoute.enabled': true, 'httpRoute.parentRefs': [{ name: 'public' }] }, 'publicUrl is needed'],
    [{ 'ingress.enabled': true, 'ingress.host': '*.example.com' }, 'publicUrl is needed'],
    [{ 'pools.agents.engines': ['onnx'] }, 'pools.agents.models.existingClaim'],
    [{ 'pools.agents.autoscaling.enabled': true }, 'set pools.agents.capabilities'],
    [
      { 'agents.sidecarSockets': ['/run/semblance/a/e.sock'] },
      'that no container of pools.agents.sidecars offers',
    ],
    [
      { 'agents.live.voiceSidecar': '/run/semblance-live/a/e.sock' },
      'pools.agents.live names a socket that no container of pools.agents.sidecars offers',
    ],
    [{ 'agents.live.videoSidecar': 'e.sock' }, 'videoSidecar'],
    [{ surprise: 1 }, "additional properties 'surprise' not allowed"],
    // `helm upgrade --reuse-values` omits the value if the previous chart did not have it.
    [{ caBundle: null }, "missing property 'caBundle'"],
    [{ 'gateway.replica': 2 }, "additional properties 'replica' not allowed"],
    [{ 'image.tag': 'latest' }, '/image/tag'],
    [{ 'image.registry': 'https://example.com' }, '/image/registry'],
    [{ 'global.imageRegistry': 'a registry' }, '/global/imageRegistry'],
    [{ 'image.digest': 'sha256:12' }, '/image/digest'],
    [{ 'tls.mode': 'on' }, '/tls/mode'],
    [{ 'tls.mode': 'generated', 'tls.generated.renewBeforeDays': 90 }, 'is not less than tls.generated.days'],
    [{ 'tls.generated.schedule': 'daily' }, '/tls/generated/schedule'],
    [{ 'metrics.monitor': 'PodMonitor' }, 'needs networkPolicy.metricsFrom'],
    [{ 'networkPolicy.dns.ports': [] }, '/networkPolicy/dns/ports'],
    [{ publicUrl: 'https://example.com/semblance' }, '/publicUrl'],
    [{ 'pools.Agents': {} }, 'Agents'],
    [{ 'pools.agents.slots': 0 }, '/pools/agents/slots'],
    [{ 'agents.terminationGracePeriodSeconds': 10 }, '/agents/terminationGracePeriodSeconds'],
    [{ extraEnv: [{ value: 'x' }] }, '/extraEnv/0'],
    [{ 'objects.s3.existingSecret': 's3' }, 'set objects.s3.bucket'],
    [{ 'objects.s3.endpoint': 'https://s3.example.com' }, 'set objects.s3.bucket'],
    [{ 'objects.s3.endpoint': 's3.example.com:9000' }, '/objects/s3/endpoint'],
    [{ 'objects.s3.endpoint': 'https://s3.example.com/bucket' }, '/objects/s3/endpoint'],
    [{ 'objects.s3.publicEndpoint': 'https://id:key@s3.example.com' }, '/objects/s3/publicEndpoint'],
    [{ 'objects.s3.bucket': 'My_Bucket' }, '/objects/s3/bucket'],
    [{ 'objects.s3.prefix': 'a b' }, '/objects/s3/prefix'],
    [{ 'controlPlane.oidc.issuer': 'http://login.example.com' }, '/controlPlane/oidc/issuer'],
    [{ 'controlPlane.oidc.issuer': 'https://login.example.com' }, 'needs controlPlane.oidc.audience'],
    [{ 'controlPlane.oidc.roles.owner': ['a,b'] }, '/controlPlane/oidc/roles/owner'],
    [{ 'caBundle.existingSecret': 'a', 'caBundle.existingConfigMap': 'b' }, 'of a Secret or of a ConfigMap'],
  ])('%j: %s', async (sets, reason) => {
    expect(await refusal({ 'tls.mode': 'off', ...sets })).toContain(reason);
  });

  it('two gateways are taken with a claim that both can mount', async () => {
    const sets = {
      'gateway.replicas': 2,
      'objects.volume.accessMode': 'ReadWriteMany',
      'persistence.enabled': true,
    };
    const gateway = find(await render('plain', sets), 'Deployment', 'rel-semblance-gateway');
    expect(gateway.spec).toMatchObject({ replicas: 2, strategy: { type: 'RollingUpdate' } });
  });
});
