import { createKubeClient, type KubeClient } from '@semblance/common/kube/index';
import { afterEach, beforeEach } from 'vitest';
import { testKube } from '../servers/shared.ts';

export let client: KubeClient;
export let kube: Awaited<ReturnType<typeof testKube>>;
export let namespace: string;

/** Each test gets a namespace at a real API server and a client. */
beforeEach(async () => {
  kube = await testKube();
  ({ namespace } = kube);
  client = createKubeClient({ kubeconfigPath: kube.kubeconfigPath, fieldManager: 'semblance-chart' });
});

afterEach(async () => {
  await client.close();
  await kube.close();
});
