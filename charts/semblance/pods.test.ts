import { loadConfig } from '@semblance/common/config';
import { NODE_FLAGS } from '@semblance/common/node-flags';
import { controlPlaneShape } from '@semblance/control-plane/config';
import { gatewayShape } from '@semblance/gateway/config';
import { GATEWAY_FLAGS } from '@semblance/gateway/node-flags';
import { CHECK_NAMES } from '@semblance/gpu-agent/content-check/settings';
import { AGENT_FLAGS } from '@semblance/gpu-agent/node-flags';
import { agentShape, loadSettings } from '@semblance/gpu-agent/settings';
import { operatorShape } from '@semblance/operator/config';
import { find, type Manifest, podsOf, poolsOf, render, VALUE_FILES } from '@semblance/testkit/chart/chart';
import { beforeAll, describe, expect, it } from 'vitest';

const rendered = new Map<string, Manifest[]>();
const NAMES = ['nothing', ...VALUE_FILES] as const;

beforeAll(async () => {
  await Promise.all(
    NAMES.map(async (name) => rendered.set(name, await render(name === 'nothing' ? undefined : name))),
  );
});

const manifests = (name: string) => rendered.get(name) as Manifest[];
const containers = (template: Manifest) => [
  ...(template.spec.containers as Manifest[]),
  ...((template.spec.initContainers as Manifest[]) ?? []),
];

it.each(NAMES)('with the values %s, the services run with their flags', (name) => {
  for (const [service, flags] of [
    ['gateway', GATEWAY_FLAGS],
    ['control-plane', NODE_FLAGS],
    ['operator', NODE_FLAGS],
  ] as const) {
    const { template } = find(manifests(name), 'Deployment', `rel-semblance-${service}`).spec;
    expect(template.spec.containers[0].command).toEqual(['node', ...flags, `${service}/main.ts`]);
  }
});

it.each(NAMES)('with the values %s, agents run with their flags', (name) => {
  const pools = poolsOf(manifests(name));
  // The values file `plain` has no pool.
  expect(pools.length > 0).toBe(name !== 'plain');
  for (const { metadata, spec } of pools) {
    const agent = containers(spec.template).find((each) => each.name === 'agent');
    expect(agent?.command, metadata.name).toEqual(['node', ...AGENT_FLAGS, 'gpu-agent/main.ts']);
  }
});

describe.each(NAMES)('with the values %s, every Pod', (name) => {
  it('keeps to the restricted Pod Security Standard, with a read-only root', () => {
    const pods = podsOf(manifests(name));
    expect(pods.length).toBeGreaterThan(4);
    for (const { from, template } of pods) {
      const { spec } = template;
      expect(spec.securityContext, from).toMatchObject({
        runAsNonRoot: true,
        runAsUser: 65532,
        seccompProfile: { type: 'RuntimeDefault' },
      });
      expect([spec.hostNetwork, spec.hostPID, spec.hostIPC], from).toEqual([undefined, undefined, undefined]);
      for (const volume of spec.volumes) expect(Object.keys(volume), from).not.toContain('hostPath');
      for (const container of containers(template)) {
        expect(container.securityContext, `${from}: ${container.name}`).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          runAsNonRoot: true,
          capabilities: { drop: ['ALL'] },
        });
      }
    }
  });

  it('names an image by version or digest, resources, and no variable twice', () => {
    for (const { from, template } of podsOf(manifests(name))) {
      for (const container of containers(template)) {
        expect(container.image, from).toMatch(/^[a-z0-9.]+(\/[a-z0-9-]+)+(:\d[\w.-]*|@sha256:[0-9a-f]{64})$/);
        const names = ((container.env ?? []) as { name: string }[]).map((entry) => entry.name);
        expect(new Set(names).size, from).toBe(names.length);
        if (container.name === 'engine') continue;
        expect(container.resources.requests, from).toHaveProperty('memory');
        expect(container.resources.limits, from).toHaveProperty('memory');
      }
    }
  });

  it('mounts only volumes that it has, and has none for nothing', () => {
    for (const { from, template } of podsOf(manifests(name))) {
      const has = (template.spec.volumes as { name: string }[]).map((volume) => volume.name).sort();
      const used = containers(template).flatMap((each) =>
        (each.volumeMounts ?? []).map((mount: { name: string }) => mount.name),
      );
      expect([...new Set(used)].sort(), from).toEqual(has);
    }
  });

  it('has a Kubernetes token only where it needs one', () => {
    for (const { from, template } of podsOf(manifests(name))) {
      const needs = /control-plane|-operator|AgentPool|-pools|-uninstall|-certificates/.test(from);
      expect(template.spec.automountServiceAccountToken, from).toBe(needs);
    }
  });

  it('that serves tells whether it lives and can do its work', () => {
    for (const { from, template } of podsOf(manifests(name))) {
      if (/Job |Pod /.test(from)) continue;
      const [main] = template.spec.containers;
      expect(main.livenessProbe, from).toBeDefined();
      expect(main.readinessProbe, from).toBeDefined();
      if (/postgres|nats/.test(from)) continue;
      expect(main.livenessProbe.httpGet, from).toEqual({ path: '/healthz', port: 'health' });
      expect(main.readinessProbe.httpGet, from).toEqual({ path: '/readyz', port: 'health' });
      // Processes start slowly on busy nodes, and agents load models.
      expect(main.startupProbe.httpGet, from).toEqual({ path: '/healthz', port: 'health' });
      expect(
        main.startupProbe.periodSeconds * main.startupProbe.failureThreshold,
        from,
      ).toBeGreaterThanOrEqual(300);
    }
  });
});

/** Returns the environment as the process sees it. Values from Secrets and the Pod are invented. */
function environment(template: Manifest): Record<string, string> {
  const made: Record<string, string> = {
    'internal-token': 'i'.repeat(40),
    'admin-token': 'a'.repeat(40),
    'objects-signing-key': 'ab'.repeat(32),
    'access-key-id': 'id',
    'secret-access-key': 'key',
    'session-token': 'token',
    'metadata.namespace': 'apps',
    'metadata.name': 'agents-x7k2p',
    'metadata.uid': '7c5cbb33-7fb1-4f5c-9d9e-1f3d5e1a1c11',
    'spec.nodeName': 'node-1',
    'status.podIP': '10.1.2.3',
  };
  const seen: Record<string, string> = {};
  for (const { name, value, valueFrom } of template.spec.containers[0].env) {
    const key = valueFrom?.secretKeyRef?.key ?? valueFrom?.fieldRef?.fieldPath;
    const url = name.includes('POSTGRES') ? 'postgres://u:p@db:5432/x' : 'nats://u:p@nats:4222';
    const text: string = valueFrom ? (key === 'url' ? url : made[key]) : value;
    expect(text, name).toBeDefined();
    seen[name] = text.replace(/\$\((\w+)\)/g, (_, variable: string) => seen[variable] ?? '');
  }
  return seen;
}

const NOT_OURS = /^(HOME|NODE_EXTRA_CA_CERTS|POD_IP|AWS_|OTEL_)/;

describe('what a service is told', () => {
  const SHAPES = {
    gateway: gatewayShape,
    'control-plane': {
      ...controlPlaneShape,
      SEMBLANCE_CONTROL_ADDRESS: gatewayShape.SEMBLANCE_CONTROL_ADDRESS,
    },
    operator: operatorShape,
  } as const;

  it.each(NAMES.flatMap((name) => Object.keys(SHAPES).map((service) => [name, service] as const)))(
    'with the values %s, %s takes',
    (name, service) => {
      const shape = SHAPES[service as keyof typeof SHAPES];
      const env = environment(find(manifests(name), 'Deployment', `rel-semblance-${service}`).spec.template);
      expect(() => loadConfig(shape, env)).not.toThrow();
      const unknown = Object.keys(env).filter((variable) => !NOT_OURS.test(variable) && !(variable in shape));
      expect(unknown).toEqual([]);
    },
  );

  it('agents take, each pool by its values', () => {
    const settings = Object.fromEntries(
      [
        ...poolsOf(manifests('nothing')),
        ...poolsOf(manifests('gpu')).filter(({ metadata }) => metadata.name !== 'agents'),
      ].map(({ metadata, spec }) => {
        const env = environment(spec.template);
        expect(
          Object.keys(env).filter((variable) => !NOT_OURS.test(variable) && !(variable in agentShape)),
        ).toEqual([]);
        return [metadata.name, loadSettings(env)];
      }),
    );
    expect(Object.keys(settings).sort()).toEqual(['agents', 'live', 'models', 'python']);
    expect(settings.agents).toMatchObject({
      name: 'agents-x7k2p',
      node: 'node-1',
      advertise: '10.1.2.3:9092',
      listen: { host: '0.0.0.0', port: 9092 },
      drainMs: 300_000,
      slots: 1,
      pod: { name: 'agents-x7k2p' },
    });
    expect(settings.live?.live).toMatchObject({
      voiceSlots: 16,
      videoSlots: 2,
      voiceContextMs: 1_280,
      videoStages: ['occlusion', 'enhancer'],
    });
    expect(settings.live?.engineSettings.builtin).toEqual({ likeness: '0' });
    expect(settings.models).toMatchObject({
      engines: ['onnx', 'builtin'],
      drainMs: 600_000,
      engineSettings: { onnx: { modelDir: '/models', providers: 'cuda,cpu' } },
    });
    expect(settings.python).toMatchObject({
      renderNice: 19,
      slots: 3,
      sidecars: ['/run/semblance/own/engine.sock'],
    });
    expect(CHECK_NAMES).toContain(settings.agents?.contentCheck.names[0]);
  });

  it('has the issuer of admin tokens where there is one', () => {
    const of = (file: (typeof NAMES)[number]) =>
      environment(find(manifests(file), 'Deployment', 'rel-semblance-control-plane').spec.template);
    expect(of('external')).toMatchObject({
      SEMBLANCE_OIDC_ISSUER: 'https://login.example.com/realms/main',
      SEMBLANCE_OIDC_AUDIENCE: 'semblance-admin',
      SEMBLANCE_OIDC_NAME_CLAIM: 'sub',
      SEMBLANCE_OIDC_ROLE_CLAIM: 'groups',
      SEMBLANCE_OIDC_ROLES: 'owner=platform,read-only=finance,read-only=auditors',
      SEMBLANCE_WEBHOOK_DENY: '10.244.0.0/16',
    });
    expect(of('plain')).not.toHaveProperty('SEMBLANCE_OIDC_ISSUER');
  });

  it("is the owner's word where the owner sets one of the chart's variables", () => {
    const env = environment(
      find(manifests('external'), 'Deployment', 'rel-semblance-operator').spec.template,
    );
    expect(env).toMatchObject({
      SEMBLANCE_LOG_LEVEL: 'debug',
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector.example:4318',
    });
  });
});
