import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  chartFile,
  find,
  lint,
  type Manifest,
  ofKind,
  podsOf,
  poolsOf,
  render,
  VALUE_FILES,
} from '@semblance/testkit/chart/chart';
import { beforeAll, describe, expect, it } from 'vitest';

const REPOSITORY = join(import.meta.dirname, '..', '..');

let nothing: Manifest[];
let external: Manifest[];

beforeAll(async () => {
  [nothing, external] = await Promise.all([render(), render('external')]);
});

const names = (manifests: readonly Manifest[], kind: string) =>
  ofKind(manifests, kind)
    .map(({ metadata }) => metadata.name.replace(/^rel-semblance-?/, ''))
    .sort();
const replicas = (manifests: readonly Manifest[]) =>
  Object.fromEntries(
    ofKind(manifests, 'Deployment').map(({ metadata, spec }) => [metadata.name, spec.replicas]),
  );

it.each([undefined, ...VALUE_FILES])('helm lint has nothing to say (%s)', async (file) => {
  const said = await lint(file);
  expect(said).toContain('1 chart(s) linted, 0 chart(s) failed');
  expect(said).not.toMatch(/WARNING|ERROR/);
});

describe('without values', () => {
  it('brings a PostgreSQL, a NATS and a volume, one replica of everything, and no budget that would hold a drain up', () => {
    expect(names(nothing, 'StatefulSet')).toEqual(['nats', 'postgres']);
    expect(replicas(nothing)).toEqual({
      'rel-semblance-control-plane': 1,
      'rel-semblance-gateway': 1,
      'rel-semblance-operator': 1,
    });
    expect(ofKind(nothing, 'PodDisruptionBudget')).toEqual([]);
    expect(find(nothing, 'Deployment', 'rel-semblance-gateway').spec.strategy).toEqual({ type: 'Recreate' });
  });

  it('has one pool of one agent, on the CPU', () => {
    const [pool, ...others] = poolsOf(nothing);
    expect(others).toEqual([]);
    expect(pool?.metadata.name).toBe('agents');
    expect(pool?.spec).toMatchObject({ replicas: 1, warmUpSeconds: 600, drainSeconds: 3600 });
    expect(JSON.stringify(pool?.spec.template)).not.toContain('nvidia');
  });

  it('makes secrets for this release alone, which fit each other', async () => {
    const again = await render();
    const secret = (manifests: Manifest[], name: string) =>
      find(manifests, 'Secret', `rel-semblance-${name}`).data;
    const plain = (text: string) => Buffer.from(text, 'base64').toString();
    expect(secret(nothing, 'internal')).not.toEqual(secret(again, 'internal'));
    const password = plain(secret(nothing, 'postgres').password);
    expect(password).toMatch(/^\w{32}$/);
    expect(plain(secret(nothing, 'postgres').url)).toBe(
      `postgres://semblance:${password}@rel-semblance-postgres.apps.svc:5432/semblance`,
    );
    const nats = secret(nothing, 'nats');
    expect(plain(nats['nats.conf'])).toContain(`password: "${plain(nats.password)}"`);
  });
});

describe('certificates of the chart', () => {
  it('are in no manifest: Secrets are empty, and a Job at each install and upgrade and each day fills them', () => {
    const text = JSON.stringify(nothing);
    expect(text).not.toMatch(/BEGIN (CERTIFICATE|[A-Z ]*PRIVATE KEY)|LS0tLS1CRUdJTi/);
    const secrets = ofKind(nothing, 'Secret').filter(({ metadata }) =>
      metadata.name.endsWith('-certificate'),
    );
    expect(secrets.map(({ metadata }) => metadata.name)).toHaveLength(4);
    for (const secret of secrets) expect([secret.data, secret.stringData]).toEqual([undefined, undefined]);
    const [job, ...others] = ofKind(nothing, 'Job').filter(({ metadata }) =>
      /-certificates-1-/.test(metadata.name),
    );
    expect(others).toEqual([]);
    const { schedule, concurrencyPolicy, jobTemplate } = find(
      nothing,
      'CronJob',
      'rel-semblance-certificates',
    ).spec;
    expect([schedule, concurrencyPolicy]).toEqual(['17 3 * * *', 'Forbid']);
    expect(jobTemplate.spec).toEqual(job?.spec);
    expect(job?.metadata.annotations).toBeUndefined();
  });

  it('are found by the Pods of each component, which wait for them', () => {
    for (const { from, template } of podsOf(nothing)) {
      const tls = template.spec.volumes.find(({ name }: { name: string }) => name === 'tls')?.secret;
      if (!tls) continue;
      const component = template.metadata.labels?.['app.kubernetes.io/component'];
      if (component !== 'test') expect(tls.secretName, from).toBe(`rel-semblance-${component}-certificate`);
      const keys = component === 'agent' ? ['ca.crt'] : ['tls.crt', 'tls.key', 'ca.crt'];
      expect(
        tls.items.map(({ key }: { key: string }) => key),
        from,
      ).toEqual(keys);
    }
  });

  it.each(['external', 'gpu', 'plain'] as const)('are not made with the values %s', async (file) => {
    const made = (await render(file)).filter(({ metadata }) => /-certificates?($|-)/.test(metadata.name));
    expect(made).toEqual([]);
  });
});

describe('a gateway that ends', () => {
  const of = (manifests: Manifest[]) => {
    const { spec } = find(manifests, 'Deployment', 'rel-semblance-gateway').spec.template;
    const env = spec.containers[0].env as { name: string; value: string }[];
    const seconds = (name: string) => Number(env.find((each) => each.name === name)?.value);
    return {
      serves: seconds('SEMBLANCE_GATEWAY_DRAIN_SECONDS'),
      live: seconds('SEMBLANCE_GATEWAY_LIVE_DRAIN_SECONDS'),
      grace: spec.terminationGracePeriodSeconds,
    };
  };

  it('lets live sessions finish where others serve meanwhile, and is not away for long where none do', async () => {
    expect(of(external)).toEqual({ serves: 10, live: 300, grace: 330 });
    expect(of(nothing)).toEqual({ serves: 10, live: 10, grace: 40 });
    expect(of(await render(undefined, { 'gateway.drainSeconds': 60 }))).toEqual({
      serves: 60,
      live: 30,
      grace: 110,
    });
  });

  it.each([0, 14_400])('gives them %d s when told to', async (live) => {
    const sets = { 'gateway.liveDrainSeconds': live };
    for (const file of [undefined, 'external'] as const)
      expect(of(await render(file, sets))).toEqual({ serves: 10, live, grace: live + 30 });
  });
});

it('a gateway believes the proxy that the chart puts before it, and as many as it is told', async () => {
  const proxies = (manifests: Manifest[]) => {
    const { spec } = find(manifests, 'Deployment', 'rel-semblance-gateway').spec.template;
    const env = spec.containers[0].env as { name: string; value: string }[];
    return env.find(({ name }) => name === 'SEMBLANCE_GATEWAY_TRUSTED_PROXIES')?.value;
  };
  const behind = { 'ingress.enabled': true, 'ingress.host': 'a.example' };
  expect(proxies(nothing)).toBe('0');
  expect(proxies(await render(undefined, behind))).toBe('1');
  expect(proxies(await render(undefined, { ...behind, 'gateway.trustedProxies': 2 }))).toBe('2');
  expect(proxies(await render(undefined, { ...behind, 'gateway.trustedProxies': 0 }))).toBe('0');
});

it('a control plane that ends still answers for a while, well within its grace', () => {
  const { spec } = find(nothing, 'Deployment', 'rel-semblance-control-plane').spec.template;
  expect(spec.containers[0].lifecycle).toEqual({ preStop: { sleep: { seconds: 5 } } });
  expect(spec.terminationGracePeriodSeconds).toBe(30);
});

describe('with PostgreSQL, NATS and S3 of the owner', () => {
  it('brings none of its own and makes no secret', () => {
    expect(ofKind(external, 'StatefulSet')).toEqual([]);
    expect(ofKind(external, 'PersistentVolumeClaim')).toEqual([]);
    expect(ofKind(external, 'Secret')).toEqual([]);
    const { spec } = find(external, 'Deployment', 'rel-semblance-control-plane').spec.template;
    const from = (name: string) =>
      spec.containers[0].env.find((entry: { name: string }) => entry.name === name);
    expect(from('SEMBLANCE_POSTGRES_URL').valueFrom.secretKeyRef).toEqual({
      name: 'own-postgres',
      key: 'url',
    });
    expect(from('AWS_SECRET_ACCESS_KEY').valueFrom.secretKeyRef.name).toBe('own-s3');
    expect(from('SEMBLANCE_OBJECTS_URL').value).toBe(
      's3://semblance-media/prod?region=eu-central-1&endpoint=https%3A%2F%2Fs3.example.com&forcePathStyle=true',
    );
  });

  it('runs two of each service, spread, with budgets; under an autoscaler says no number', () => {
    expect(replicas(external)).toEqual({
      'rel-semblance-control-plane': 2,
      'rel-semblance-gateway': undefined,
      'rel-semblance-operator': 2,
    });
    expect(names(external, 'PodDisruptionBudget')).toEqual(['control-plane', 'gateway', 'operator']);
    for (const { spec } of ofKind(external, 'PodDisruptionBudget'))
      expect(spec).toMatchObject({ maxUnavailable: 1, unhealthyPodEvictionPolicy: 'AlwaysAllow' });
    for (const { spec } of ofKind(external, 'Deployment')) {
      expect(spec.strategy).toEqual({
        type: 'RollingUpdate',
        rollingUpdate: { maxUnavailable: 0, maxSurge: 1 },
      });
      expect(spec.template.spec.topologySpreadConstraints).toHaveLength(2);
    }
  });

  it('trusts authorities of the owner in every Pod that speaks to the servers', async () => {
    const bundle = { existingSecret: 'authorities', existingConfigMap: '', key: 'root.pem' };
    for (const [manifests, source] of [
      [external, { configMap: { name: 'own-authorities', items: [{ key: 'bundle.pem', path: 'ca.crt' }] } }],
      [
        await render(undefined, { caBundle: bundle }),
        { secret: { secretName: 'authorities', items: [{ key: 'root.pem', path: 'ca.crt' }] } },
      ],
    ] as const) {
      const told = podsOf(manifests).filter(({ template }) =>
        template.spec.containers[0].env?.some(
          ({ name, value }: { name: string; value: string }) =>
            name === 'NODE_EXTRA_CA_CERTS' && value === '/etc/semblance/ca/ca.crt',
        ),
      );
      expect(told.map(({ from }) => from.replace(/rel-semblance-/, '')).sort()).toEqual([
        ...['AgentPool agents', 'Deployment control-plane', 'Deployment gateway', 'Deployment operator'],
        'Pod test-photo-swap',
      ]);
      for (const { from, template } of told) {
        const { volumes } = template.spec as { volumes: { name: string }[] };
        expect(
          volumes.find(({ name }) => name === 'ca'),
          from,
        ).toEqual({ name: 'ca', ...source });
      }
    }
    expect(JSON.stringify(nothing)).not.toContain('NODE_EXTRA_CA_CERTS');
  });

  it('lets them reach S3 at whatever port its endpoint has', async () => {
    const ports = async (s3: Record<string, unknown>) => {
      const policy = find(await render(undefined, s3), 'NetworkPolicy', 'rel-semblance-agent');
      return policy.spec.egress.at(-1).ports.map(({ port }: { port: number }) => port);
    };
    const bucket = { 'objects.s3.bucket': 'media', 'networkPolicy.external.ports': [443] };
    expect(await ports(bucket)).toEqual([443]);
    expect(await ports({ ...bucket, 'objects.s3.endpoint': 'http://minio.storage.svc' })).toEqual([443, 80]);
    const two = {
      'objects.s3.endpoint': 'http://minio.storage.svc:9100',
      'objects.s3.publicEndpoint': 'https://media.example.com:8443/',
    };
    expect(await ports({ ...bucket, ...two })).toEqual([443, 9100, 8443]);
  });

  it('takes images from one registry, by digest where there is one', () => {
    const images = ofKind(external, 'Deployment').map(({ spec }) => spec.template.spec.containers[0].image);
    expect(new Set(images)).toEqual(
      new Set([`registry.example.com/semblance@sha256:${'1'.padStart(64, '0')}`]),
    );
    expect(poolsOf(external)[0]?.spec.template.spec.containers[0].image).toBe(
      'registry.example.com/semblance-agent:0.1.0',
    );
    for (const { spec } of [...ofKind(external, 'Deployment'), ...poolsOf(external)])
      expect(spec.template.spec.imagePullSecrets).toEqual([{ name: 'pull' }]);
  });

  it('asks cert-manager for a certificate of each component', () => {
    const certificates = ofKind(external, 'Certificate').filter(({ spec }) => !spec.isCA);
    expect(certificates.map(({ spec }) => [spec.secretName, spec.dnsNames[0]])).toEqual(
      ['gateway', 'control-plane', 'operator', 'agent'].map((component) => [
        `rel-semblance-${component}-tls`,
        `${component}.semblance.internal`,
      ]),
    );
    for (const { metadata, spec } of ofKind(external, 'Certificate'))
      expect(spec.secretTemplate.labels, metadata.name).toMatchObject({
        'app.kubernetes.io/instance': 'rel',
      });
  });

  it('puts labels and annotations on everything, and objects of the owner', () => {
    for (const each of external.filter(
      ({ kind, metadata }) => kind !== 'ConfigMap' || metadata.name !== 'rel-extra',
    ))
      expect(each.metadata.labels, `${each.kind} ${each.metadata.name}`).toMatchObject({ team: 'media' });
    expect(find(external, 'ConfigMap', 'rel-extra')).toBeDefined();
    expect(poolsOf(external)[0]?.spec.template.metadata).toMatchObject({
      labels: { team: 'media' },
      annotations: { 'example.com/note': 'yes' },
    });
  });
});

describe('sockets of four hours and films of 500 MiB', () => {
  it('pass the ingress', () => {
    const ingress = find(external, 'Ingress', 'rel-semblance');
    expect(ingress.metadata.annotations).toEqual({
      'cert-manager.io/cluster-issuer': 'letsencrypt',
      'nginx.ingress.kubernetes.io/proxy-body-size': '520m',
      'nginx.ingress.kubernetes.io/proxy-read-timeout': '14700',
      'nginx.ingress.kubernetes.io/proxy-request-buffering': 'off',
      'nginx.ingress.kubernetes.io/proxy-send-timeout': '14700',
    });
    expect(ingress.spec.rules[0].http.paths[0].backend.service.name).toBe('rel-semblance-gateway');
  });

  it('pass the route', () => {
    const [rule] = find(external, 'HTTPRoute', 'rel-semblance').spec.rules;
    expect(rule.timeouts).toEqual({ request: '0s', backendRequest: '0s' });
    expect(rule.backendRefs).toEqual([{ name: 'rel-semblance-gateway', port: 8080 }]);
  });
});

describe('resource definitions', () => {
  it("are the repository's, and stay when the release goes unless told otherwise", async () => {
    const files = (await readdir(join(REPOSITORY, 'crds'))).filter((name) => name.endsWith('.yaml')).sort();
    expect((await readdir(join(import.meta.dirname, 'files', 'crds'))).sort()).toEqual(files);
    for (const file of files)
      expect(await chartFile(`files/crds/${file}`), `${file}: run npm run generate`).toBe(
        await readFile(join(REPOSITORY, 'crds', file), 'utf8'),
      );
    const crds = ofKind(nothing, 'CustomResourceDefinition');
    expect(crds).toHaveLength(files.length);
    for (const { metadata } of crds)
      expect(metadata.annotations).toEqual({ 'helm.sh/resource-policy': 'keep' });
    const going = ofKind(
      await render('plain', { 'crds.enabled': true, 'crds.keep': false }),
      'CustomResourceDefinition',
    );
    expect(going).toHaveLength(files.length);
    for (const { metadata } of going) expect(metadata.annotations ?? {}).toEqual({});
    expect(ofKind(await render('plain'), 'CustomResourceDefinition')).toEqual([]);
  });
});
