import { KubeConfig, KubernetesObjectApi } from '@kubernetes/client-node';
import { natsOptions } from '@semblance/common/nats-url';
import { connect } from 'nats';
import postgres from 'postgres';
import { describe, expect, it } from 'vitest';
import { testKube, testNats, testPostgres } from './shared.ts';

// The first test that asks for a server waits until it runs.
describe('servers for tests', { timeout: 180_000 }, () => {
  it('gives each caller an empty database that goes when it is closed', async () => {
    const [one, other] = await Promise.all([testPostgres(), testPostgres()]);
    const sql = postgres(one.url, { max: 1 });
    await sql`create table t as select 'here' as v`;
    expect(await sql`select v from t`).toEqual([{ v: 'here' }]);
    const elsewhere = postgres(other.url, { max: 1 });
    await expect(elsewhere`select v from t`).rejects.toMatchObject({ code: '42P01' });
    await elsewhere.end();
    await sql.end();
    await one.close();
    await other.close();
    const admin = postgres(one.adminUrl, { max: 1 });
    const name = new URL(one.url).pathname.slice(1);
    expect(await admin`select 1 from pg_database where datname = ${name}`).toEqual([]);
    await admin.end();
  });

  it('gives each caller streams that no other one sees', async () => {
    const [one, other] = await Promise.all([testNats(), testNats()]);
    const [a, b] = await Promise.all([connect(natsOptions(one.url)), connect(natsOptions(other.url))]);
    const manager = await a.jetstreamManager();
    await manager.streams.add({ name: 'EVENTS', subjects: ['events.>'] });
    const ack = await a.jetstream().publish('events.x', 'hello');
    expect(ack).toMatchObject({ stream: 'EVENTS', seq: 1 });
    const elsewhere = await b.jetstreamManager();
    expect(await elsewhere.streams.list().next()).toEqual([]);
    await Promise.all([a.close(), b.close()]);
  });

  it('gives each caller a namespace of a Kubernetes API that knows the resources', async () => {
    const kube = await testKube();
    const config = new KubeConfig();
    config.loadFromFile(kube.kubeconfigPath);
    expect(config.getContexts()[0]?.namespace).toBe(kube.namespace);
    const api = KubernetesObjectApi.makeApiClient(config);
    const list = await api.list('semblance.dev/v1alpha1', 'RenderJob', kube.namespace);
    expect(list.items).toEqual([]);
    await kube.close();
  });
});
