/** @module-tag go */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import {
  createKubeClient,
  type KubeClient,
  type KubeObject,
  NAMESPACE_RESOURCE,
} from '@semblance/common/kube/index';
import { silentLogger } from '@semblance/common/logging';
import { applyDefinitions } from '@semblance/local/crds';
import { resolveTools } from '@semblance/local/toolchain/toolchain';
import { renewCertificates, SECRETS } from '@semblance/operator/chart/certificates';
import {
  find,
  helm,
  type Manifest,
  manifestsOf,
  podsOf,
  poolsOf,
  render,
} from '@semblance/testkit/chart/chart';
import { moduleFiles } from '@semblance/testkit/chart/module-files';
import { FOREIGN_CRDS } from '@semblance/testkit/chart/schemas';
import { testKube } from '@semblance/testkit/servers/shared';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const DAY_MS = 86_400_000;
const NODES = { group: '', version: 'v1', plural: 'nodes', kind: 'Node' };
const SERVICE_CIDRS = {
  group: 'networking.k8s.io',
  version: 'v1',
  plural: 'servicecidrs',
  kind: 'ServiceCIDR',
};

let kube: Awaited<ReturnType<typeof testKube>>;
let client: KubeClient;
let folder: string;
let kubectl: string;

beforeAll(async () => {
  kube = await testKube();
  client = createKubeClient({ kubeconfigPath: kube.kubeconfigPath, fieldManager: 'test' });
  folder = await mkdtemp(join(tmpdir(), 'semblance-chart-'));
  kubectl = (await resolveTools(['kubectl'])).kubectl;
  // The CRDs of other projects let the API server validate the chart's objects of those kinds, too.
  const folders = await Promise.all(FOREIGN_CRDS.map((each) => moduleFiles(each)));
  await Promise.all(folders.map((each) => applyDefinitions(client, each)));
  // The API server itself enforces the restricted Pod Security Standard.
  await client.mergePatch(
    NAMESPACE_RESOURCE,
    { name: kube.namespace },
    {
      metadata: { labels: { 'pod-security.kubernetes.io/enforce': 'restricted' } },
    },
  );
});

afterAll(async () => {
  await client.close();
  await rm(folder, { recursive: true, force: true });
  await kube.close();
});

/**
 * Sends objects as a dry run with all of admission; unknown and duplicate fields are refused. Returns their names.
 */
async function dryRun(objects: readonly object[]): Promise<string[]> {
  const file = join(folder, 'objects.json');
  await writeFile(file, JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }));
  const args = ['--kubeconfig', kube.kubeconfigPath, 'create', '--dry-run=server', '--validate=strict'];
  const { stdout } = await promisify(execFile)(kubectl, [...args, '-o', 'name', '-f', file]);
  return stdout.trim().split('\n');
}
const here = (each: Manifest): Manifest =>
  each.metadata.namespace ? { ...each, metadata: { ...each.metadata, namespace: kube.namespace } } : each;
const install = (verb: 'install' | 'upgrade', ...args: string[]) =>
  // There are no nodes to run the hooks' Jobs.
  helm([verb, 'rel', import.meta.dirname, ...where(), '--no-hooks', ...args]);
const where = () => ['--kubeconfig', kube.kubeconfigPath, '--namespace', kube.namespace];
const secrets = async () =>
  Object.fromEntries(
    (await client.list(SECRETS, { namespace: kube.namespace })).items
      .filter(({ metadata }) => metadata.name?.startsWith('rel-'))
      .map((each) => [each.metadata.name, (each as KubeObject & { data: unknown }).data]),
  );

describe('a Kubernetes API of the version that is built', () => {
  it('installs, upgrades and removes a release; its secrets stay what they were', async () => {
    const notes = await install('install');
    expect(notes).toContain(`helm test rel -n ${kube.namespace} --logs`);
    expect(notes).toContain('account create --name first');
    expect(notes).toContain('svc/rel-semblance-gateway 8080:8080');
    expect(notes).toContain('FOR EVALUATION ONLY');
    expect(notes).toContain('The resource definitions were there already, of no release');
    expect(notes).toContain('no PersistentVolumeClaims, since the cluster has no default StorageClass');
    const before = await secrets();
    expect(Object.keys(before)).toHaveLength(7);

    // What the Job of the chart writes is not Helm's.
    const renewing = { client, namespace: kube.namespace, fullname: 'rel-semblance', logger: silentLogger() };
    const times = { lifetimeMs: 90 * DAY_MS, renewBeforeMs: 30 * DAY_MS, spreadMs: 10 };
    expect(await renewCertificates({ ...renewing, ...times })).toBe('made');
    Object.assign(before, await secrets());
    expect(Object.values(before)).not.toContain(undefined);

    const deployments = async () => {
      const manifests = manifestsOf(await helm(['get', 'manifest', 'rel', ...where()]));
      return manifests
        .filter(({ kind }) => /Deployment|StatefulSet/.test(kind))
        .map(({ spec }) => spec.template);
    };
    const pods = await deployments();
    await install('upgrade', '--set=controlPlane.webhookAllow={10.0.0.0/8}');
    expect(await secrets()).toEqual(before);
    const after = await deployments();
    const changed = after.filter(
      (template, index) => JSON.stringify(template) !== JSON.stringify(pods[index]),
    );
    expect(changed.map(({ spec }) => spec.containers[0].name)).toEqual(['control-plane']);

    // Agents may reach the existing addresses of the API server, and no others.
    const manifests = manifestsOf(await helm(['get', 'manifest', 'rel', ...where()]));
    const [, api] = find(manifests, 'NetworkPolicy', 'rel-semblance-agent').spec.egress;
    for (const { ipBlock } of api.to ?? []) expect(ipBlock.cidr).toMatch(/\/(32|128)$/);

    // Pods of every kind are created as their owners would, in a namespace that enforces the restricted standard.
    const templates = [...podsOf(manifests.map(here)), ...podsOf((await render('gpu')).map(here))];
    const made = templates
      .filter(({ template }) => !template.spec.runtimeClassName && !template.spec.priorityClassName)
      .map(({ template: { spec, metadata } }, index) => ({
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { ...metadata, name: `pod-${index}`, namespace: kube.namespace },
        spec,
      }));
    expect(made.length).toBeGreaterThan(12);
    expect(await dryRun(made)).toHaveLength(made.length);

    // Webhooks go to none of the cluster's Services and Pods.
    const denied = (all: readonly Manifest[]): string =>
      find(all, 'Deployment', 'rel-semblance-control-plane').spec.template.spec.containers[0].env.find(
        ({ name }: { name: string }) => name === 'SEMBLANCE_WEBHOOK_DENY',
      ).value;
    const { spec } = (await client.list(SERVICE_CIDRS)).items[0] as KubeObject & {
      spec: { cidrs: string[] };
    };
    expect(denied(manifests).split(',')).toEqual(expect.arrayContaining(spec.cidrs));
    const node = { apiVersion: 'v1', kind: 'Node', metadata: { name: `node-of-${kube.namespace}` } };
    const podCIDRs = ['198.18.77.0/24', 'fd77::/64'];
    await client.apply(NODES, { ...node, spec: { podCIDR: podCIDRs[0], podCIDRs } } as KubeObject);
    try {
      await install('upgrade', '--set=controlPlane.webhookDeny={198.18.66.0/24}');
      const ranges = denied(manifestsOf(await helm(['get', 'manifest', 'rel', ...where()]))).split(',');
      expect(ranges).toEqual(expect.arrayContaining([...podCIDRs, '198.18.66.0/24', ...spec.cidrs]));
    } finally {
      await client.delete(NODES, node.metadata);
    }

    await helm(['uninstall', 'rel', ...where(), '--no-hooks']);
    expect(await secrets()).toEqual({});
  });

  it('reads Secrets of the owner: one that lacks a key is refused, one that changes has Pods replaced', async () => {
    const secret = (name: string, stringData: Record<string, string>) =>
      client.apply(SECRETS, {
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: { name, namespace: kube.namespace },
        stringData,
      } as KubeObject);
    const sets = [
      ...['postgres', 'nats'].map((name) => `--set=${name}.existingSecret=own-${name}`),
      ...['--set=objects.s3.bucket=media', '--set=objects.s3.existingSecret=own-s3'],
    ];
    await secret('own-postgres', { uri: 'postgres://a:b@c/d' });
    const refused = await install('install', ...sets).catch((error: Error) => error.message);
    expect(refused).toContain('postgres.existingSecret: the Secret own-postgres has no key url');

    await secret('own-postgres', { url: 'postgres://a:b@c/d' });
    const keys = { 'access-key-id': 'a', 'secret-access-key': 'b' };
    await secret('own-s3', keys);
    // A missing Secret may come from elsewhere; the Pods that need it wait for it.
    await install('install', ...sets);
    const annotations = async () => {
      const manifests = manifestsOf(await helm(['get', 'manifest', 'rel', ...where()]));
      return podsOf(manifests)
        .filter(({ from }) => /Deployment|AgentPool/.test(from))
        .map(({ from, template }) => [from, template.metadata.annotations] as const);
    };
    const before = await annotations();
    expect(before).toHaveLength(4);
    await install('upgrade', ...sets);
    expect(await annotations()).toEqual(before);
    await secret('own-s3', { ...keys, 'session-token': 'c' });
    await install('upgrade', ...sets);
    const changed = (await annotations()).filter(
      ([, now], index) => JSON.stringify(now) !== JSON.stringify(before[index]?.[1]),
    );
    expect(changed.map(([from]) => from.replace('Deployment rel-semblance-', '')).sort()).toEqual([
      ...['control-plane', 'gateway', 'operator'],
    ]);
    await helm(['uninstall', 'rel', ...where(), '--no-hooks']);
  });

  it('judges resources of other projects by their own definitions', async () => {
    const external = (await render('external')).map(here);
    const refused = (kind: string, name: string, change: (spec: Manifest['spec']) => void) => {
      const copy = structuredClone(find(external, kind, name)) as Manifest;
      change(copy.spec);
      return dryRun([copy]).catch(({ stderr }: { stderr: string }) => stderr);
    };
    expect(
      await refused('Certificate', 'rel-semblance-agent', (spec) => {
        spec.dnsName = 'agent';
      }),
    ).toMatch(/unknown field "(spec\.)?dnsName"/);
    expect(
      await refused('HTTPRoute', 'rel-semblance', (spec) => {
        spec.rules[0].timeouts.request = 'never';
      }),
    ).toContain('spec.rules[0].timeouts.request: Invalid value: "never"');
    expect(
      await refused('ServiceMonitor', 'rel-semblance', (spec) => {
        spec.endpoints[0].intervall = '30s';
      }),
    ).toMatch(/unknown field "(spec\.endpoints\[0\]\.)?intervall"/);
    expect(
      await refused('PrometheusRule', 'rel-semblance', (spec) => {
        spec.groups[0].rules[0].for = 'soon';
      }),
    ).toContain('spec.groups[0].rules[0].for: Invalid value: "soon"');
  });

  it.each([undefined, 'external', 'gpu', 'plain'] as const)(
    'takes every object, field by field (%s)',
    async (file) => {
      const manifests = await render(file);
      const checked = [...manifests, ...poolsOf(manifests)]
        .filter(({ kind }) => kind !== 'CustomResourceDefinition')
        // Pods are checked above, together with their ServiceAccounts.
        .filter(({ kind }) => kind !== 'Pod')
        .map(here);
      expect(await dryRun(checked)).toHaveLength(checked.length);
    },
  );
});
