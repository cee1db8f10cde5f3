import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { applyCrds } from '@semblance/local/crds';
import { freePort } from '@semblance/local/process/ports';
import { resolveTools } from '@semblance/local/toolchain/toolchain';
import type { Run } from '@semblance/testkit/operator/fake-agent';
import { createHarness } from '@semblance/testkit/operator/harness';
import { startKube } from '@semblance/testkit/servers/start';
import { expect, it } from 'vitest';

it('a restart of the API server ends no work, and what ended meanwhile is recorded', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'semblance-outage-'));
  const binaries = await resolveTools(['etcd', 'kube-apiserver']);
  const options = { binaries, dir, port: await freePort(), durable: false };
  let kube = await startKube(options);
  try {
    const { kubeconfigPath } = kube;
    const namespace = 'semblance';
    await applyCrds({ kubeconfig: kubeconfigPath, namespace });
    const harness = await createHarness({ kubeconfigPath, namespace, close: async () => {} });
    try {
      const runs: Run[] = [];
      // The Lease outlasts the outage: the agent does not fence itself, so only the operator could be wrong.
      const agent = await harness.agent({
        name: 'one',
        slots: 4,
        leaseSeconds: 120,
        script: (run) => void runs.push(run),
      });
      // The leadership is shorter than some outages, so it may be lost and won again.
      const operator = await harness.operator({
        election: { leaseDurationMs: 6_000, renewDeadlineMs: 5_000, retryPeriodMs: 500 },
      });
      for (const name of ['ends-meanwhile', 'goes-on']) {
        await harness.job(name);
        await harness.until(name, (job) => job.status?.phase === 'Running', 40_000);
      }
      await kube.stop();
      runs[0]?.succeed();
      await expect
        .poll(async () => (await fetch(`http://127.0.0.1:${operator.healthPort}/readyz`)).status, {
          timeout: 30_000,
        })
        .toBe(503);
      kube = await startKube(options);

      const ended = await harness.until(
        'ends-meanwhile',
        (job) => job.status?.phase === 'Succeeded' && !job.metadata.finalizers?.length,
        40_000,
      );
      expect(ended.status?.attempt).toBe(1);
      runs[1]?.progress(0.5);
      await harness.until('goes-on', (job) => job.status?.progress === '50%', 40_000);
      await harness.job('after');
      await harness.until('after', (job) => job.status?.phase === 'Running', 40_000);
      expect((await harness.get('goes-on')).status?.attempt).toBe(1);
      expect(agent.stops).toEqual([]);
      expect(agent.starts).toHaveLength(3);
    } finally {
      await harness.close();
    }
  } finally {
    await kube.stop();
    await rm(dir, { recursive: true, force: true });
  }
}, 180_000);
