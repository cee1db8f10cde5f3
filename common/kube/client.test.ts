import { getEventListeners, once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GPUAGENT_RESOURCE } from '@semblance/crds/gen/gpuagents';
import { RENDERJOB_RESOURCE } from '@semblance/crds/gen/renderjobs';
import { testKube } from '@semblance/testkit/servers/shared';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createKubeClient, type KubeClient, LIST_PAGE } from './client.ts';
import { EVENT_RESOURCE, type KubeObject, LEASE_RESOURCE } from './resources.ts';

let kube: Awaited<ReturnType<typeof testKube>>;
let client: KubeClient;
let namespace: string;

beforeAll(async () => {
  kube = await testKube();
  namespace = kube.namespace;
  client = createKubeClient({ kubeconfigPath: kube.kubeconfigPath, fieldManager: 'semblance-test' });
});

afterAll(async () => {
  await client?.close();
  await kube?.close();
});

const spec = {
  capability: 'face-swap-image' as const,
  inputs: [
    { name: 'image', key: 'api/a/b.jpg' },
    { name: 'face', key: 'api/a/c.jpg' },
  ],
};

describe('the client', () => {
  it('creates, reads, patches and deletes, with errors by code', async () => {
    const metadata = { name: 'one', namespace };
    const created = await client.create(RENDERJOB_RESOURCE, { metadata, spec });
    expect(created.spec.backoffLimit).toBe(2);
    await expect(client.create(RENDERJOB_RESOURCE, { metadata, spec })).rejects.toMatchObject({
      code: 'already_exists',
      status: 409,
      retryable: false,
    });
    expect(await client.get(RENDERJOB_RESOURCE, metadata)).toEqual(created);
    await expect(client.get(RENDERJOB_RESOURCE, { ...metadata, name: 'two' })).rejects.toMatchObject({
      code: 'not_found',
    });
    expect(await client.find(RENDERJOB_RESOURCE, { ...metadata, name: 'two' })).toBeUndefined();

    const suspended = await client.mergePatch(RENDERJOB_RESOURCE, metadata, { spec: { suspend: true } });
    expect(suspended.spec.suspend).toBe(true);
    await expect(client.replace(RENDERJOB_RESOURCE, created)).rejects.toMatchObject({ code: 'conflict' });
    await expect(
      client.mergePatch(RENDERJOB_RESOURCE, metadata, { spec: { capability: 'avatar' } }),
    ).rejects.toMatchObject({ code: 'invalid', status: 422 });

    const other = { name: 'answered-in-short', namespace };
    const { metadata: short, ...rest } = await client.createForMetadata(RENDERJOB_RESOURCE, {
      metadata: other,
      spec,
    });
    expect(short.uid).toBe((await client.get(RENDERJOB_RESOURCE, other)).metadata.uid);
    expect(rest).not.toHaveProperty('spec');
    await expect(
      client.createForMetadata(RENDERJOB_RESOURCE, { metadata: other, spec }),
    ).rejects.toMatchObject({ code: 'already_exists' });
    await client.delete(RENDERJOB_RESOURCE, other);

    const { uid } = created.metadata;
    await expect(
      client.delete(RENDERJOB_RESOURCE, metadata, { uid: '00000000-0000-0000-0000-000000000000' }),
    ).rejects.toMatchObject({ code: 'conflict' });
    expect(await client.delete(RENDERJOB_RESOURCE, metadata, { uid })).toBe(true);
    expect(await client.delete(RENDERJOB_RESOURCE, metadata)).toBe(false);
  });

  it('applies the spec and the status as two owners', async () => {
    const metadata = { name: 'gpu-a', namespace };
    const agent = await client.apply(GPUAGENT_RESOURCE, { metadata, spec: {} });
    const own = { incarnation: 'i1', address: '127.0.0.1:1', slots: 2 };
    await client.apply(GPUAGENT_RESOURCE, { metadata, status: own }, { subresource: 'status' });
    const both = await client.apply(
      GPUAGENT_RESOURCE,
      { metadata, status: { slotsUsed: 1 } },
      { subresource: 'status', fieldManager: 'semblance-other' },
    );
    expect(both.status).toEqual({ ...own, slotsUsed: 1 });
    await expect(
      client.apply(
        GPUAGENT_RESOURCE,
        { metadata: { ...metadata, resourceVersion: agent.metadata.resourceVersion }, status: {} },
        { subresource: 'status' },
      ),
    ).rejects.toMatchObject({ code: 'conflict' });
    const missing = { name: 'gpu-b', namespace, uid: agent.metadata.uid };
    await expect(client.apply(GPUAGENT_RESOURCE, { metadata: missing, spec: {} })).rejects.toMatchObject({
      code: 'conflict',
    });
  });

  it('lists all pages of one snapshot and cannot delete a collection by an empty name', async () => {
    const labels = { batch: 'pages' };
    const names = Array.from({ length: LIST_PAGE + 1 }, (_, i) => `page-${String(i).padStart(4, '0')}`);
    await Promise.all(
      names.map((name) => client.create(LEASE_RESOURCE, { metadata: { name, namespace, labels }, spec: {} })),
    );
    const listed = await client.list(LEASE_RESOURCE, { namespace, labelSelector: 'batch=pages' });
    expect(listed.items.map(({ metadata }) => metadata.name)).toEqual(names);
    await expect(client.delete(LEASE_RESOURCE, { namespace, name: '' })).rejects.toThrow('by a name');
    const events = await client.list<KubeObject>(EVENT_RESOURCE, { namespace });
    expect(events.items).toEqual([]);
  });

  it('keeps a burst of requests within its cap and on few connections', async () => {
    const capped = createKubeClient({
      kubeconfigPath: kube.kubeconfigPath,
      fieldManager: 'semblance-test',
      maxInFlight: 4,
    });
    const versions = await Promise.all(Array.from({ length: 200 }, () => capped.version()));
    expect(new Set(versions).size).toBe(1);
    await capped.close();
    await expect(capped.version()).rejects.toMatchObject({ code: 'unavailable', retryable: true });
  });

  it('leaves nothing on the signal of whoever asked, answered or refused', async () => {
    const { signal } = new AbortController();
    const answered = client.version({ signal });
    expect(getEventListeners(signal, 'abort').length).toBeGreaterThan(0);
    await answered;
    const nobody = { name: 'nobody', namespace };
    await expect(client.get(RENDERJOB_RESOURCE, nobody, { signal })).rejects.toMatchObject({
      code: 'not_found',
    });
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('asks nothing for whom it is over already', async () => {
    const aborted = AbortSignal.abort(new Error('enough'));
    await expect(client.version({ signal: aborted })).rejects.toThrow('enough');
  });

  it('says that nothing answers, in time', async () => {
    const silent = createServer(() => {}).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const dir = await mkdtemp(join(tmpdir(), 'semblance-kube-'));
    const kubeconfigPath = join(dir, 'config');
    const server = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const config = {
      clusters: [{ name: 'c', cluster: { server, 'insecure-skip-tls-verify': true } }],
      users: [{ name: 'u', user: { token: 't' } }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'x',
    };
    await writeFile(kubeconfigPath, JSON.stringify(config));
    const patient = createKubeClient({
      kubeconfigPath,
      fieldManager: 'semblance-test',
      requestTimeoutMs: 200,
    });
    try {
      const asked = patient.version();
      await expect(asked).rejects.toMatchObject({
        code: 'timeout',
        retryable: true,
        // The time limit of the whole request applies, because undici's own limit is later.
        cause: { name: 'TimeoutError' },
      });
    } finally {
      await patient.close();
      silent.closeAllConnections();
      silent.close();
      await rm(dir, { recursive: true });
    }
  });
});
