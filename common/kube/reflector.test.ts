import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TcpProxy } from '@semblance/testkit/common/tcp-proxy';
import { startKubeProxy } from '@semblance/testkit/kube/kube-proxy';
import { testKube } from '@semblance/testkit/servers/shared';
import { Registry } from 'prom-client';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { silentLogger } from '../logging.ts';
import { createKubeClient, type KubeClient } from './client.ts';
import { createReflector, type Reflector } from './reflector.ts';
import { LEASE_RESOURCE, type Lease } from './resources.ts';

let kube: Awaited<ReturnType<typeof testKube>>;
let folder: string;
/** Client that bypasses the proxy. */
let direct: KubeClient;
let namespace: string;

beforeAll(async () => {
  kube = await testKube();
  namespace = kube.namespace;
  folder = await mkdtemp(join(tmpdir(), 'semblance-reflector-'));
  direct = createKubeClient({ kubeconfigPath: kube.kubeconfigPath, fieldManager: 'semblance-test' });
});

afterAll(async () => {
  await direct?.close();
  await kube?.close();
  if (folder) await rm(folder, { recursive: true, force: true });
});

let proxy: TcpProxy;
let proxied: KubeClient;
let stop: AbortController;
let running: Promise<void>[] = [];
let label = 0;

beforeEach(async () => {
  label++;
  const kubeconfigPath = join(folder, `proxied-${label}`);
  proxy = await startKubeProxy(kube.kubeconfigPath, kubeconfigPath);
  proxied = createKubeClient({ kubeconfigPath, fieldManager: 'semblance-test', requestTimeoutMs: 8_000 });
  stop = new AbortController();
  running = [];
});

afterEach(async () => {
  stop.abort();
  await Promise.all(running);
  await proxied.close();
  await proxy.close();
});

const labels = () => ({ test: String(label) });
const lease = (name: string) => ({ namespace, name: `${name}-${label}` });
const create = (name: string) =>
  direct.create(LEASE_RESOURCE, { metadata: { ...lease(name), labels: labels() }, spec: {} });
const touch = (name: string, holderIdentity: string) =>
  direct.mergePatch(LEASE_RESOURCE, lease(name), { spec: { holderIdentity } });
const remove = (name: string) => direct.delete(LEASE_RESOURCE, lease(name));
const short = ({ metadata }: Lease) => metadata.name?.replace(/-\d+$/, '') ?? '';

/** Creates a reflector through the proxy and records the calls of its handlers. */
function reflect(more: { registry?: Registry; relistEveryMs?: number } = {}) {
  const told: string[] = [];
  const reflector: Reflector<Lease> = createReflector({
    client: proxied,
    resource: LEASE_RESOURCE,
    namespace,
    labelSelector: `test=${label}`,
    logger: silentLogger(),
    indexers: { holder: ({ spec }) => (spec?.holderIdentity ? [spec.holderIdentity] : []) },
    handlers: {
      onAdd: (object) => void told.push(`add ${short(object)}`),
      onUpdate: (object) => void told.push(`update ${short(object)}`),
      onDelete: (object) => void told.push(`delete ${short(object)}`),
      onSynced: () => void told.push('synced'),
    },
    ...more,
  });
  running.push(reflector.run(stop.signal));
  return { reflector, told };
}

describe('the reflector', () => {
  it('lists, follows, indexes, and tells late handlers of what is there', async () => {
    await create('a');
    const { reflector, told } = reflect();
    await reflector.waitForSync();
    expect(told).toEqual(['add a', 'synced']);
    await touch('a', 'me');
    await create('b');
    await remove('b');
    await expect.poll(() => told).toEqual(['add a', 'synced', 'update a', 'add b', 'delete b']);
    expect(reflector.byIndex('holder', 'me').map(short)).toEqual(['a']);
    await touch('a', 'you');
    await expect.poll(() => reflector.byIndex('holder', 'you')).toHaveLength(1);
    expect(reflector.byIndex('holder', 'me')).toEqual([]);
    const late: string[] = [];
    reflector.addHandlers({ onAdd: (object) => void late.push(short(object)) });
    expect(late).toEqual(['a']);
    expect(reflector.healthySince).toBeTypeOf('number');
  });

  it('contains handlers that throw, at once or later', async () => {
    const { reflector, told } = reflect();
    reflector.addHandlers({
      onAdd: () => {
        throw new Error('thrown');
      },
      onUpdate: (async () => {
        throw new Error('rejected');
      }) as () => void,
    });
    await reflector.waitForSync();
    await create('a');
    await touch('a', 'x');
    await create('b');
    await expect.poll(() => told).toEqual(['synced', 'add a', 'update a', 'add b']);
  });

  it('resumes a watch whose connection was cut, without listing again', async () => {
    const registry = new Registry();
    const { reflector, told } = reflect({ registry });
    await reflector.waitForSync();
    await create('a');
    await expect.poll(() => told).toContain('add a');
    for (const name of ['b', 'c', 'd']) {
      proxy.cut();
      await create(name);
      await expect.poll(() => told, { timeout: 30_000 }).toContain(`add ${name}`);
    }
    expect(await registry.metrics()).toMatch(/semblance_kube_lists_total\{resource="leases"\} 1\n/);
  });

  it('shows delete and recreate during an outage as delete, then add, and has no health meanwhile', async () => {
    await create('a');
    await create('gone');
    const { reflector, told } = reflect();
    await reflector.waitForSync();
    const { uid } = (await direct.get(LEASE_RESOURCE, lease('a'))).metadata;
    told.length = 0;
    proxy.set('refuse');
    await expect.poll(() => reflector.healthySince).toBeUndefined();
    await remove('a');
    const again = await create('a');
    await remove('gone');
    const before = performance.now();
    proxy.set('open');
    await expect.poll(() => told, { timeout: 30_000 }).toEqual(['delete a', 'add a', 'delete gone']);
    expect(reflector.byUid(uid ?? '')).toBeUndefined();
    expect(reflector.get(lease('a').name)?.metadata.uid).toBe(again.metadata.uid);
    expect(reflector.healthySince).toBeGreaterThan(before);
  });

  it('reads its own writes, and is not misled by answers that come late', async () => {
    const { reflector, told } = reflect();
    await reflector.waitForSync();
    proxy.set('hang');
    const written = await create('a');
    reflector.note(written);
    expect(reflector.get(lease('a').name)).toBe(written);
    const newer = await touch('a', 'x');
    reflector.note(newer);
    reflector.note(written);
    expect(reflector.get(lease('a').name)).toBe(newer);
    await remove('a');
    proxy.set('open');
    await expect.poll(() => told).toEqual(['synced', 'add a', 'update a', 'delete a']);
    reflector.note(newer);
    expect(reflector.get(lease('a').name)).toBeUndefined();
  });

  it('lists anew on demand, and what waits for it learns of its end', async () => {
    const { reflector } = reflect();
    await reflector.waitForSync();
    proxy.set('hang');
    await create('a');
    const gaveUp = new AbortController();
    const waiting = reflector.resync(gaveUp.signal);
    gaveUp.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    const resynced = reflector.resync();
    proxy.set('open');
    await resynced;
    expect(reflector.list().map(short)).toEqual(['a']);
  });

  it('finds by its periodic list what the watch never told, and counts it', async () => {
    const registry = new Registry();
    const watch = proxied.watch;
    // This watch drops one event, as a broken intermediary might.
    Object.assign(proxied, {
      async *watch(...args: Parameters<typeof watch>) {
        for await (const event of watch(...args)) {
          const swallowed = event.type === 'ADDED' && event.object.metadata.name?.startsWith('swallowed');
          if (!swallowed) yield event;
        }
      },
    });
    const { reflector, told } = reflect({ registry, relistEveryMs: 100 });
    await reflector.waitForSync();
    await create('swallowed');
    await expect.poll(() => told, { timeout: 60_000 }).toContain('add swallowed');
    expect(await registry.metrics()).toMatch(/semblance_kube_missed_total\{resource="leases"\} 1\n/);
  });
});
