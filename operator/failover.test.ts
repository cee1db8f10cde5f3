import { LEASE_RESOURCE } from '@semblance/common/kube/index';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import { watchLag } from '@semblance/testkit/common/lag';
import type { FakeAgent, Ledger, Run } from '@semblance/testkit/operator/fake-agent';
import { createHarness, type Harness } from '@semblance/testkit/operator/harness';
import { createOperatorProcesses } from '@semblance/testkit/operator/operator-process';
import { overlaps } from '@semblance/testkit/operator/overlaps';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ELECTION_LEASE } from './app.ts';

/** Promised with the default settings: time from the signal until waiting work begins, in ms. */
const AFTER_SIGTERM_MS = 3_000;
const AFTER_SIGKILL_MS = 17_000;

let harness: Harness;
let processes: Awaited<ReturnType<typeof createOperatorProcesses>>;
let agent: FakeAgent;
const ledger: Ledger = { entries: [] };
const runs = new Map<string, Run & { readonly at: number; readonly date: number }>();

beforeAll(async () => {
  harness = await createHarness();
  processes = await createOperatorProcesses(harness);
  const script = (run: Run) =>
    void runs.set(run.request.jobName, { ...run, at: performance.now(), date: Date.now() });
  agent = await harness.agent({ name: 'one', slots: 8, ledger, script });
});
afterAll(async () => {
  await processes.close();
  await harness.close();
});

const lease = async () =>
  (await harness.client.find(LEASE_RESOURCE, { namespace: harness.namespace, name: ELECTION_LEASE }))?.spec;
const running = (job: RenderJob) => job.status?.phase === 'Running';

it('work that waits begins within 3 s of the leader being asked to end, and within 17 s of its being killed', async () => {
  const first = await processes.start('first');
  await first.ready();
  await expect.poll(async () => (await lease())?.holderIdentity).toBe('first');
  await harness.job('carried');
  await harness.until('carried', running);
  const second = await processes.start('second');
  await second.ready();

  let lag = watchLag(lease);
  const asked = performance.now();
  const ended = first.kill('SIGTERM');
  await harness.job('after-sigterm');
  await expect.poll(() => runs.has('after-sigterm'), { timeout: 30_000, interval: 10 }).toBe(true);
  const afterSigterm = (runs.get('after-sigterm')?.at ?? 0) - asked - (await lag.stop());
  await ended;

  const third = await processes.start('third');
  await third.ready();
  expect((await lease())?.holderIdentity).toBe('second');
  // The most costly moment: the leader has just renewed.
  const { renewTime } = (await lease()) ?? {};
  await expect
    .poll(async () => (await lease())?.renewTime, { timeout: 30_000, interval: 5 })
    .not.toBe(renewTime);
  lag = watchLag(lease);
  const killed = performance.now();
  await second.kill('SIGKILL');
  const lastRenewal = Date.parse((await lease())?.renewTime ?? '');
  for (const name of ['after-sigkill-1', 'after-sigkill-2']) await harness.job(name);
  await expect.poll(() => runs.size, { timeout: 60_000, interval: 10 }).toBe(4);
  const afterSigkill = Math.max(...[...runs.values()].map(({ at }) => at)) - killed - (await lag.stop());
  const afterRenewal = Math.max(...[...runs.values()].map(({ date }) => date)) - lastRenewal;

  for (const run of runs.values()) run.succeed();
  for (const name of ['carried', 'after-sigterm', 'after-sigkill-1', 'after-sigkill-2']) {
    const done = await harness.until(name, (job) => job.status?.phase === 'Succeeded');
    expect(done.status?.attempt).toBe(1);
  }
  expect(overlaps(ledger)).toEqual([]);
  expect(agent.begun).toHaveLength(4);
  expect(agent.stops).toEqual([]);
  expect(afterSigterm).toBeLessThan(AFTER_SIGTERM_MS);
  expect(afterSigkill).toBeLessThan(AFTER_SIGKILL_MS);
  // Nor earlier: until then the killed leader might have been merely slow.
  expect(afterRenewal).toBeGreaterThan(14_000);
  if (process.env.SEMBLANCE_TEST_LOG) console.log({ afterSigterm, afterSigkill });
}, 240_000);
