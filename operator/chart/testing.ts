import { afterEach, beforeEach } from 'vitest';
import { createKubeClient, type KubeClient } from '#common/kube/index.ts';
import { testKube } from '../../local/testing.ts';

export let client: KubeClient;
export let kube: Awaited<ReturnType<typeof testKube>>;
export let namespace: string;

/** For tests of one file: a namespace of each test at a real API server, and a client. */
beforeEach(async () => {
  kube = await testKube();
  ({ namespace } = kube);
  client = createKubeClient({ kubeconfigPath: kube.kubeconfigPath, fieldManager: 'semblance-chart' });
});

afterEach(async () => {
  await client.close();
  await kube.close();
});
