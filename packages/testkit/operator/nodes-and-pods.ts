import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { KubeConfig, KubernetesObjectApi } from '@kubernetes/client-node';
import type { KubeClient, KubeObject, ResourceDescriptor } from '@semblance/common/kube/index';
import { GPUAGENT_RESOURCE } from '@semblance/crds/gen/gpuagents';
import { NODE_RESOURCE, type NodeObject } from '@semblance/operator/agents/disruption';
import { POD_RESOURCE, type Pod } from '@semblance/operator/pools/pod';
import { parse, stringify } from 'yaml';

const SERVICE_ACCOUNT: ResourceDescriptor<KubeObject> = {
  group: '',
  version: 'v1',
  plural: 'serviceaccounts',
  kind: 'ServiceAccount',
};

/** Nodes without a kubelet and Pods that never run, at a real API server. */
export interface NodesAndPods {
  node(): Promise<string>;
  cordon(node: string, unschedulable: boolean): Promise<NodeObject>;
  /** Creates a Pod on the node, for the GpuAgent of that name. */
  pod(agent: string, node: string): Promise<Pod>;
  /** Requests the deletion, for which a Pod on a node waits; with `now`, the Pod is deleted immediately. */
  deletePod(name: string, now?: 'now'): Promise<void>;
  close(): Promise<void>;
}

export function createNodesAndPods(of: {
  readonly client: KubeClient;
  readonly kubeconfigPath: string;
  readonly namespace: string;
}): NodesAndPods {
  const { client, namespace } = of;
  const nodes: string[] = [];
  let account: Promise<unknown> | undefined;
  return {
    async node() {
      const name = `node-${randomBytes(5).toString('hex')}`;
      await client.create(NODE_RESOURCE, { metadata: { name } });
      nodes.push(name);
      return name;
    },
    cordon: (name, unschedulable) => client.mergePatch(NODE_RESOURCE, { name }, { spec: { unschedulable } }),
    async pod(agent, node) {
      // Without controllers, no default service account is created.
      account ??= client.apply(SERVICE_ACCOUNT, { metadata: { name: 'default', namespace } });
      await account;
      const spec = { nodeName: node, containers: [{ name: 'agent', image: 'localhost/none' }] };
      const pod = await client.create(POD_RESOURCE, { metadata: { name: agent, namespace }, spec });
      const status = { podIP: '127.0.0.1', podIPs: [{ ip: '127.0.0.1' }] };
      await client.mergePatch(
        POD_RESOURCE,
        { name: agent, namespace },
        { status },
        { subresource: 'status' },
      );
      const owner = { apiVersion: 'v1', kind: 'Pod', name: agent, uid: pod.metadata.uid };
      const patch = { metadata: { ownerReferences: [owner] } };
      await client.mergePatch(GPUAGENT_RESOURCE, { name: agent, namespace }, patch);
      return pod;
    },
    async deletePod(name, now) {
      const config = new KubeConfig();
      config.loadFromFile(of.kubeconfigPath);
      const object = { apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace } };
      await KubernetesObjectApi.makeApiClient(config).delete(object, undefined, undefined, now ? 0 : 600);
    },
    async close() {
      for (const name of nodes) await client.delete(NODE_RESOURCE, { name });
    },
  };
}

/**
 * Creates a kubeconfig of a service account with `rules` in the namespace, and a function that grants cluster-wide
 * rules.
 */
export async function restrictedKubeconfig(options: {
  readonly kubeconfigPath: string;
  readonly namespace: string;
  readonly rules: readonly object[];
}): Promise<{ readonly path: string; allow(rules: readonly object[]): Promise<() => Promise<void>> }> {
  const { kubeconfigPath, namespace } = options;
  const config = new KubeConfig();
  config.loadFromFile(kubeconfigPath);
  const api = KubernetesObjectApi.makeApiClient(config);
  const name = 'restricted';
  const rbac = 'rbac.authorization.k8s.io';
  const subjects = [{ kind: 'ServiceAccount', name, namespace }];
  const core = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace } };
  await api.create(core);
  const grant = async (kinds: readonly [role: string, binding: string], metadata: object, rules: unknown) => {
    const named = metadata as { name: string };
    const role = { apiVersion: `${rbac}/v1`, kind: kinds[0], metadata: named, rules };
    const roleRef = { apiGroup: rbac, kind: kinds[0], name: named.name };
    const binding = { apiVersion: `${rbac}/v1`, kind: kinds[1], metadata: named, subjects, roleRef };
    for (const object of [role, binding]) await api.create(object);
    return async () => {
      for (const object of [binding, role]) await api.delete(object);
    };
  };
  await grant(['Role', 'RoleBinding'], { name, namespace }, options.rules);

  const { CoreV1Api } = await import('@kubernetes/client-node');
  const { status } = await config.makeApiClient(CoreV1Api).createNamespacedServiceAccountToken({
    name,
    namespace,
    body: { spec: { audiences: [], expirationSeconds: 3_600 } },
  });
  const text = parse(await readFile(kubeconfigPath, 'utf8')) as { users: { user: object }[] };
  for (const each of text.users) each.user = { token: status?.token };
  const path = `${kubeconfigPath}-${name}`;
  await writeFile(path, stringify(text), { mode: 0o600 });
  return {
    path,
    allow: (rules) => grant(['ClusterRole', 'ClusterRoleBinding'], { name: namespace }, rules),
  };
}
