import { LEASE_RESOURCE } from '@semblance/common/kube/index';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import { createHarness, type Harness } from '@semblance/testkit/operator/harness';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { ELECTION_LEASE } from './app.ts';

let harness: Harness;
beforeEach(async () => {
  harness = await createHarness();
});
afterEach(async () => {
  await harness.close();
});

const phase = (name: string) => (job: RenderJob) => job.status?.phase === name;

it('an object store that does not answer holds up neither the end of an operator nor the next one', async () => {
  const asked = Promise.withResolvers<void>();
  const stuck = {
    ...harness.objects,
    delete: () => {
      asked.resolve();
      return new Promise<void>(() => {});
    },
  };
  await harness.agent({ name: 'one', script: (run) => run.fail('face_not_detected', 'no face') });
  const first = await harness.operator({ identity: 'first', objects: stuck });
  await harness.job('failed');
  // The operator is about to remove what the attempt may have stored.
  await asked.promise;
  await harness.until('failed', phase('Failed'));
  await first.close();
  const ref = { namespace: harness.namespace, name: ELECTION_LEASE };
  expect((await harness.client.get(LEASE_RESOURCE, ref)).spec?.holderIdentity).toBe('');

  await harness.operator({ identity: 'second' });
  const { metadata } = await harness.until('failed', (job) => !job.metadata.finalizers?.length);
  expect(harness.objects.deleted).toContain(`out/${metadata.uid}/1.jpg`);
});
