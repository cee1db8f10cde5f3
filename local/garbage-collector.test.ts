import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { KubeConfig, KubernetesObjectApi } from '@kubernetes/client-node';
import { createKubeClient, type KubeClient, type KubeObject } from '@semblance/common/kube/index';
import { RENDERJOB_RESOURCE, type RenderJob } from '@semblance/crds/gen/renderjobs';
import { testKube } from '@semblance/testkit/servers/shared';
import { eventually } from '@semblance/testkit/stack/eventually';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { collectGarbage } from './garbage-collector.ts';
import { resolveTools } from './toolchain/toolchain.ts';

let kube: Awaited<ReturnType<typeof testKube>>;
let client: KubeClient;
let api: KubernetesObjectApi;
let collecting: Promise<void>;
const ending = new AbortController();
const faults: unknown[] = [];

beforeAll(async () => {
  kube = await testKube();
  const { kubeconfigPath: kubeconfig, namespace } = kube;
  client = createKubeClient({ kubeconfigPath: kubeconfig, fieldManager: 'semblance-test' });
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  api = KubernetesObjectApi.makeApiClient(config);
  collecting = collectGarbage({
    kubeconfig,
    namespace,
    signal: ending.signal,
    onFault: (error) => faults.push(error),
  });
});
afterAll(async () => {
  ending.abort();
  await collecting;
  await client.close();
  await kube.close();
  expect(faults).toEqual([]);
});

type Owner = { apiVersion: string; kind: string; name: string; uid: string };
const ownerOf = ({ apiVersion, kind, metadata }: KubeObject): Owner => ({
  apiVersion: apiVersion ?? '',
  kind: kind ?? '',
  name: metadata.name ?? '',
  uid: metadata.uid ?? '',
});

async function object(kind: string, name: string, ...ownerReferences: Owner[]): Promise<KubeObject> {
  const metadata = { name, namespace: kube.namespace, ownerReferences };
  return (await api.create({ apiVersion: 'v1', kind, metadata })) as unknown as KubeObject;
}

function job(name: string, ...ownerReferences: Owner[]): Promise<RenderJob> {
  const inputs = [
    { name: 'image', key: 'api/own/base.jpg' },
    { name: 'face', key: 'api/own/face.jpg' },
  ];
  return client.create(RENDERJOB_RESOURCE, {
    metadata: { name, namespace: kube.namespace, ownerReferences },
    spec: { capability: 'face-swap-image', inputs },
  });
}

const found = (name: string) => client.find(RENDERJOB_RESOURCE, { namespace: kube.namespace, name });
const goes = (name: string) =>
  eventually(`${name} to go`, async () => ((await found(name)) === undefined ? true : undefined));

async function kubectl(...args: string[]): Promise<void> {
  const { kubectl: program } = await resolveTools(['kubectl']);
  await promisify(execFile)(program, ['-n', kube.namespace, ...args, '--timeout=30s'], {
    env: { PATH: process.env.PATH, HOME: '/nonexistent', KUBECONFIG: kube.kubeconfigPath },
  });
}

it('deletes what an object owns, and what that owns, after it', async () => {
  const first = await job('first');
  const second = await job('second', ownerOf(first));
  await job('third', ownerOf(second));
  await job('apart');
  await kubectl('delete', 'rj', 'first');
  await goes('second');
  await goes('third');
  expect(await found('apart')).toBeDefined();
});

it('deletes what an object of another kind owned, and an object that never had its owner', async () => {
  const secret = await object('Secret', 'owner');
  await job('of-a-secret', ownerOf(secret));
  await job('of-nobody', { ...ownerOf(secret), name: 'never-there', uid: 'never-there' });
  await goes('of-nobody');
  expect(await found('of-a-secret')).toBeDefined();
  await kubectl('delete', 'secret', 'owner');
  await goes('of-a-secret');
});

it('keeps an object while one of its owners is there, or is of a kind that the API does not serve', async () => {
  const gone = await object('ConfigMap', 'gone');
  const kept = await object('ConfigMap', 'kept');
  await job('of-both', ownerOf(gone), ownerOf(kept));
  await job('of-unknown', { apiVersion: 'example.org/v1', kind: 'Thing', name: 'x', uid: 'u' });
  await job('of-gone', ownerOf(gone));
  await kubectl('delete', 'configmap', 'gone');
  await goes('of-gone');
  expect(await found('of-both')).toBeDefined();
  expect(await found('of-unknown')).toBeDefined();
});

it('leaves dependents alone with --cascade=orphan, and the owner goes', async () => {
  const owner = await job('orphaning');
  await job('orphan', ownerOf(owner));
  await kubectl('delete', 'rj', 'orphaning', '--cascade=orphan');
  expect((await found('orphan'))?.metadata.ownerReferences ?? []).toEqual([]);
});

it('deletes dependents first with --cascade=foreground', async () => {
  const owner = await object('ConfigMap', 'foreground');
  await job('dependent', ownerOf(owner));
  await kubectl('delete', 'configmap', 'foreground', '--cascade=foreground');
  expect(await found('dependent')).toBeUndefined();
});
