import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RENDERJOB_RESOURCE, type RenderJob } from '#crds/gen/renderjobs.ts';
import type { FakeAgent, Ledger, Run } from './testing/fake-agent.ts';
import { createHarness, type Harness } from './testing/harness.ts';
import { overlaps } from './testing/overlaps.ts';

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
      // Every tenth job is interrupted the first time round.
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
    // This one never comes back: its Lease must lapse.
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
      // Each attempt ran at most once, the recorded one did, and each retry has its reason.
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
    // Six were dispatched or finished; of the others at most what the budget of 25 writes a second allows.
    expect(touched).toBeLessThanOrEqual(6 + 25 * (seconds + 1));
    expect(touched).toBeLessThan(150);
  }, 120_000);
});
