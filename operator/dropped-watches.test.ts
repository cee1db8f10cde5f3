import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createKubeClient, createReflector, type KubeClient } from '@semblance/common/kube/index';
import { silentLogger } from '@semblance/common/logging';
import { RENDERJOB_RESOURCE, type RenderJob } from '@semblance/crds/gen/renderjobs';
import type { TcpProxy } from '@semblance/testkit/common/tcp-proxy';
import { startKubeProxy } from '@semblance/testkit/kube/kube-proxy';
import type { FakeAgent, Ledger } from '@semblance/testkit/operator/fake-agent';
import { createHarness, type Harness } from '@semblance/testkit/operator/harness';
import { overlaps } from '@semblance/testkit/operator/overlaps';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, expect, it } from 'vitest';

/** Watches that are cut. Each costs the next one a TLS handshake. */
const DROPPED = Number(process.env.SEMBLANCE_TEST_DROPS ?? 1_000);
/** Local copies beside those of the operator, each with its own watch. */
const WITNESSES = 16;
/** Time for a cut to be noticed before the next, and longest wait until all watches are back, in ms. */
const NOTICED_MS = 20;
const BACK_WITHIN_MS = 500;
/** Interval between writes, in ms, so that a restored watch has an event to deliver. */
const TOUCH_EVERY_MS = 25;
/** Cuts for each submitted job. */
const JOB_EVERY = 3;

let dir: string;
let harness: Harness;
let proxy: TcpProxy;
let agent: FakeAgent;
let client: KubeClient;
const ledger: Ledger = { entries: [] };
const stop = new AbortController();
const running: Promise<unknown>[] = [];
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-dropped-'));
  harness = await createHarness();
  proxy = await startKubeProxy(harness.kubeconfigPath, join(dir, 'kubeconfig'));
  const script = async (run: { succeed(): void }) => {
    await delay(20);
    run.succeed();
  };
  agent = await harness.agent({ name: 'one', slots: 4, ledger, script });
});
afterAll(async () => {
  stop.abort();
  await Promise.allSettled(running);
  await client?.close();
  await harness.close();
  await proxy.close();
  await rm(dir, { recursive: true });
});

/** Describes a state of a job. If only the version differs, another writer wrote something else. */
const stateOf = ({ metadata, status }: RenderJob) =>
  `${metadata.name} ${metadata.resourceVersion} ${status?.phase} ${status?.attempt}`;

it('a thousand dropped watches lose no transition, and no work', async () => {
  const registry = new Registry();
  const operator = await harness.operator({ kubeconfigPath: join(dir, 'kubeconfig'), registry });
  const told = await harness.history();
  client = createKubeClient({ kubeconfigPath: join(dir, 'kubeconfig'), fieldManager: 'witness' });
  const witnesses = Array.from({ length: WITNESSES }, () => {
    const states: string[] = [];
    const keep = (job: RenderJob) => void states.push(stateOf(job));
    const own = new Registry();
    const reflector = createReflector<RenderJob>({
      client,
      resource: RENDERJOB_RESOURCE,
      namespace: harness.namespace,
      logger: silentLogger(),
      registry: own,
      handlers: { onAdd: keep, onUpdate: keep },
    });
    running.push(reflector.run(stop.signal));
    const isWatching = () => reflector.healthySince !== undefined;
    return { states, registry: own, isWatching, synced: reflector.waitForSync() };
  });
  await Promise.all(witnesses.map(({ synced }) => synced));
  await expect.poll(() => operator.leading).toBe(true);

  const dropped = async () => {
    const counts = [registry, ...witnesses.map((witness) => witness.registry)].map((each) =>
      countOf(each, 'semblance_kube_watch_failures_total'),
    );
    return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
  };
  const names: string[] = [];
  await harness.job('touched', { suspend: true });
  const touching = new AbortController();
  const touched = (async () => {
    for (let n = 0; !touching.signal.aborted && !stop.signal.aborted; n++) {
      const annotations = { touched: String(n) };
      await harness.client.mergePatch(
        RENDERJOB_RESOURCE,
        { namespace: harness.namespace, name: 'touched' },
        { metadata: { annotations } },
      );
      await delay(TOUCH_EVERY_MS);
    }
  })();
  running.push(touched);
  touched.catch(() => {});
  const began = performance.now();
  for (let cuts = 0; (await dropped()) < DROPPED; cuts++) {
    proxy.cut();
    if (cuts % JOB_EVERY === 0) {
      names.push(`job-${cuts}`);
      await harness.job(`job-${cuts}`);
    }
    await delay(NOTICED_MS);
    const until = performance.now() + BACK_WITHIN_MS;
    while (witnesses.some(({ isWatching }) => !isWatching()) && performance.now() < until) await delay(5);
    await delay(NOTICED_MS);
  }
  const seconds = (performance.now() - began) / 1_000;
  touching.abort();
  await touched;

  for (const name of names) {
    const done = await harness.until(
      name,
      ({ status, metadata }) => status?.phase === 'Succeeded' && !metadata.finalizers?.length,
    );
    expect(done.status?.attempt).toBe(1);
  }
  expect(agent.begun).toHaveLength(names.length);
  expect(overlaps(ledger)).toEqual([]);

  const followed = ['touched', ...names];
  const all = () => followed.flatMap((name) => told(name).map(stateOf));
  for (const { states } of witnesses) await expect.poll(() => states.toSorted()).toEqual(all().toSorted());
  // Groups the states by job, in the order in which they happened.
  const inOrder = (states: readonly string[]) =>
    followed.flatMap((name) => states.filter((state) => state.startsWith(`${name} `)));
  for (const { states } of witnesses) expect(inOrder(states)).toEqual(all());
  const lists = await Promise.all(
    witnesses.map((witness) => countOf(witness.registry, 'semblance_kube_lists_total')),
  );
  expect(lists, 'each watch went on where it had been cut').toEqual(Array(WITNESSES).fill(1));
  if (process.env.SEMBLANCE_TEST_LOG)
    console.log({ dropped: await dropped(), seconds, jobs: names.length, states: all().length });
}, 240_000);

async function countOf(registry: Registry, name: string): Promise<number> {
  const metric = await registry.getSingleMetric(name)?.get();
  return (metric?.values ?? []).reduce((sum, { value }) => sum + value, 0);
}
