/**
 * `node main.ts KUBECONFIG` enforces the NetworkPolicies of a one-node cluster on all Pods, with iptables rules in the network namespace in which it is started.
 */
import { setTimeout as delay } from 'node:timers/promises';
import {
  createKubeClient,
  createReflector,
  type KubeObject,
  NAMESPACE_RESOURCE,
  type ResourceDescriptor,
} from '@semblance/common/kube/index';
import { createLogger } from '@semblance/common/logging';
import { run } from '@semblance/common/process/run';
import { transaction } from './rules.ts';
import type { Pod, Policy } from './selection.ts';

const PODS: ResourceDescriptor<Pod> = { group: '', version: 'v1', plural: 'pods', kind: 'Pod' };
const POLICIES: ResourceDescriptor<Policy> = {
  group: 'networking.k8s.io',
  version: 'v1',
  plural: 'networkpolicies',
  kind: 'NetworkPolicy',
};
/** Time in which changes are gathered into one transaction, in ms. */
const GATHER_MS = 50;

const [kubeconfigPath = ''] = process.argv.slice(2);
const logger = createLogger({ service: 'network-policies', level: 'info' });
const client = createKubeClient({ kubeconfigPath, fieldManager: 'network-policies' });
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());

let changed = () => {};
function copyOf<T extends KubeObject>(resource: ResourceDescriptor<T>) {
  const handlers = { onAdd: () => changed(), onUpdate: () => changed(), onDelete: () => changed() };
  return createReflector<T>({ client, resource, logger, handlers });
}
const policies = copyOf(POLICIES);
const pods = copyOf(PODS);
const namespaces = copyOf(NAMESPACE_RESOURCE);
for (const each of [policies, pods, namespaces]) void each.run(stop.signal);
await Promise.all([policies, pods, namespaces].map((each) => each.waitForSync(stop.signal)));

let former: string[] | undefined;
let formerText = '';
while (!stop.signal.aborted) {
  const change = new Promise<void>((resolve) => {
    changed = resolve;
    stop.signal.addEventListener('abort', () => resolve(), { once: true });
  });
  const cluster = { policies: policies.list(), pods: pods.list(), namespaces: namespaces.list() };
  const { text, chains } = transaction(cluster, former);
  if (text !== formerText) {
    // A failure to write the rules ends this process, and with it the cluster's start or the waiting test, so that
    // no gap stays unnoticed.
    await run('iptables-restore', ['--wait', '10', '--noflush'], { input: text });
    logger.info({ policies: cluster.policies.length, chains: chains.length }, 'rules written');
    former = chains;
    formerText = text;
  }
  await change;
  await delay(GATHER_MS);
}
await client.close();
