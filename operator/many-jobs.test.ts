import { RENDERJOB_RESOURCE, type RenderJob } from '@semblance/crds/gen/renderjobs';
import type { FakeAgent, Ledger, Run } from '@semblance/testkit/operator/fake-agent';
import { createHarness, type Harness } from '@semblance/testkit/operator/harness';
import { overlaps } from '@semblance/testkit/operator/overlaps';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

let harness: Harness;

beforeEach(async () => {
  harness = await createHarness();
});

afterEach(async () => {
  await harness.close();
});

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe('many jobs', () => {
  it('end once each and never run twice at once, while agents die, restart, interrupt and lose their streams', async () => {
    const ledger: Ledger = { entries: [] };
    const script = async (run: Run) => {
      const { attempt = 0 } = run.request.ref ?? {};
      run.progress(0.5);
      await pause(10 + Math.random() * 30);
      // Every tenth job is interrupted in its first attempt.
      if (attempt === 1 && run.request.jobName.endsWith('7')) run.interrupt('scripted');
      else run.succeed();
    };
    const launch = (name: string) => harness.agent({ name, slots: 3, ledger, script, leaseSeconds: 8 });
    const agents: FakeAgent[] = await Promise.all(['a', 'b', 'c'].map(launch));
    await harness.operator();
    const names = Array.from({ length: 200 }, (_, i) => `many-${String(i).padStart(3, '0')}`);
    const finished = async () => {
      const { items } = await harness.client.list(RENDERJOB_RESOURCE, { namespace: harness.namespace });
      return items.filter(({ status }) => status?.phase === 'Succeeded').length;
    };
    const creating = (async () => {
      for (const name of names) await harness.job(name);
    })();
    await expect.poll(finished, { timeout: 60_000 }).toBeGreaterThan(20);
    await agents[0]?.kill();
    await expect.poll(finished, { timeout: 60_000 }).toBeGreaterThan(50);
    agents[1]?.dropStreams();
    await launch('a');
    await expect.poll(finished, { timeout: 60_000 }).toBeGreaterThan(90);
    // This agent never comes back, so its Lease must lapse.
    await agents[2]?.kill();
    await creating;
    await expect.poll(finished, { timeout: 120_000, interval: 200 }).toBe(names.length);

    expect(overlaps(ledger)).toEqual([]);
    const { items } = await harness.client.list(RENDERJOB_RESOURCE, { namespace: harness.namespace });
    const problems = items.filter((job: RenderJob) => {
      const attempts = ledger.entries
        .filter(({ uid }) => uid === job.metadata.uid)
        .map(({ attempt }) => attempt);
      const { attempt = 0, interruptions = 0, lostAgents = 0 } = job.status ?? {};
      // Each attempt ran at most once, the recorded one did run, and each retry has its reason.
      return (
        new Set(attempts).size !== attempts.length ||
        !attempts.includes(attempt) ||
        attempt > 1 + interruptions + lostAgents + 2
      );
    });
    expect(problems).toEqual([]);
    expect(items.filter(({ status }) => status?.interruptions === 1).length).toBeGreaterThanOrEqual(15);
  }, 240_000);

  it('that wait cost few writes for each that is dispatched', async () => {
    const runs: Run[] = [];
    await harness.agent({ name: 'one', slots: 1, script: (run) => void runs.push(run) });
    await harness.operator();
    await Promise.all(
      Array.from({ length: 150 }, (_, i) => harness.job(`wait-${String(i).padStart(3, '0')}`)),
    );
    const told = async () => {
      const { items } = await harness.client.list(RENDERJOB_RESOURCE, { namespace: harness.namespace });
      return items.filter(({ status }) => status?.phase !== undefined).length;
    };
    await expect.poll(told, { timeout: 60_000, interval: 250 }).toBe(150);
    const versions = async () => {
      const { items } = await harness.client.list(RENDERJOB_RESOURCE, { namespace: harness.namespace });
      return new Map(items.map(({ metadata }) => [metadata.name, metadata.resourceVersion]));
    };
    const before = await versions();
    const began = performance.now();
    for (let i = 0; i < 5; i++) {
      await expect.poll(() => runs.length, { timeout: 40_000 }).toBeGreaterThan(i);
      runs[i]?.succeed();
    }
    await expect.poll(() => runs.length, { timeout: 40_000 }).toBeGreaterThan(5);
    const after = await versions();
    const touched = [...after].filter(([name, version]) => before.get(name) !== version).length;
    const seconds = (performance.now() - began) / 1000;
    // Six were dispatched or finished; the others stay within the budget of 25 writes a second.
    expect(touched).toBeLessThanOrEqual(6 + 25 * (seconds + 1));
    expect(touched).toBeLessThan(150);
  }, 120_000);

  it('are begun after the end of another is told, however many of them are to be begun first', async () => {
    const runs: Run[] = [];
    const swap = (video: string) => ({
      capability: 'face-swap' as const,
      inputs: [
        { name: 'video', key: `api/test/${video}.mp4` },
        { name: 'face', key: 'api/test/face.jpg' },
      ],
    });
    await harness.agent({ name: 'ending', slots: 1, script: (run) => void runs.push(run) });
    const script = (run: Run) => run.succeed();
    await harness.agent({ name: 'beginning', slots: 40, capabilities: ['face-swap'], script });
    // The only worker of the queue hangs where it asks the store for links.
    const reached = Promise.withResolvers<void>();
    const opened = Promise.withResolvers<void>();
    const objects = {
      ...harness.objects,
      async signGet(...args: Parameters<typeof harness.objects.signGet>) {
        if (args[0] === 'api/test/held.mp4') {
          reached.resolve();
          await opened.promise;
        }
        return harness.objects.signGet(...args);
      },
    };
    const registry = new Registry();
    const depth = async () => {
      const { values = [] } = (await registry.getSingleMetric('semblance_queue_depth')?.get()) ?? {};
      return values.find(({ labels }) => labels.queue === 'renderjobs')?.value;
    };
    const states = await harness.history();
    const names = Array.from({ length: 12 }, (_, i) => `begins-${i}`);
    try {
      await harness.operator({ concurrency: 1, objects, registry });
      await harness.job('ending');
      await harness.until('ending', ({ status }) => status?.phase === 'Running');
      await harness.job('held', swap('held'));
      await reached.promise;
      for (const name of names) await harness.job(name, swap('other'));
      await expect.poll(depth, { timeout: 40_000 }).toBe(names.length);
      runs[0]?.succeed();
      await expect.poll(depth, { timeout: 40_000 }).toBe(names.length + 1);
    } finally {
      opened.resolve();
    }

    const versionOf = async (name: string, phase: string) => {
      const is = ({ status }: RenderJob) => status?.phase === phase;
      await expect.poll(() => states(name).some(is), { timeout: 40_000 }).toBe(true);
      return Number(states(name).find(is)?.metadata.resourceVersion);
    };
    const told = await versionOf('ending', 'Succeeded');
    for (const name of names) expect(await versionOf(name, 'Assigned'), name).toBeGreaterThan(told);
  }, 120_000);
});
