import { readFile, writeFile } from 'node:fs/promises';
import { CoreV1Api, KubeConfig, KubernetesObjectApi } from '@kubernetes/client-node';
import { createKubeClient, type KubeClient } from '@semblance/common/kube/index';
import { parse, stringify } from 'yaml';
import { testKube } from '../servers/shared.ts';
import { type Manifest, ofKind, render } from './chart.ts';

const RIGHTS = ['ServiceAccount', 'Role', 'RoleBinding', 'ClusterRole', 'ClusterRoleBinding'];
const POLICIES = ['ValidatingAdmissionPolicy', 'ValidatingAdmissionPolicyBinding'];
const IN_NO_NAMESPACE = /^(Cluster|ValidatingAdmission)/;

/** Somebody at the API of the test. */
export interface Subject {
  readonly client: KubeClient;
  readonly kubeconfigPath: string;
}

/** The rights that the chart gives, in force at a real API server, in a namespace of their own. */
export interface Rights {
  readonly namespace: string;
  readonly kubeconfigPath: string;
  /** A cluster administrator. */
  readonly admin: KubeClient;
  /** Creates the Pod, with the service account of the chart's agents. @returns its uid and the token bound to it */
  pod(name: string): Promise<Subject & { readonly uid: string }>;
  /** A service account of the chart, such as `operator`, with a token that is bound to no Pod. */
  component(name: string): Promise<Subject>;
  /** A person whose only right in the namespace is the ClusterRole. */
  person(name: string, clusterRole: string): Promise<Subject>;
  close(): Promise<void>;
}

/**
 * Renders the chart into a new namespace and applies its rights and admission policies, and nothing else.
 * @param options.policies false leaves the admission policies out, to show what they are for
 */
export async function installRights(
  options: { readonly sets?: Readonly<Record<string, unknown>>; readonly policies?: boolean } = {},
): Promise<Rights> {
  const kube = await testKube();
  const { kubeconfigPath, namespace } = kube;
  const config = new KubeConfig();
  config.loadFromFile(kubeconfigPath);
  const api = KubernetesObjectApi.makeApiClient(config);
  const core = config.makeApiClient(CoreV1Api);
  const admin = createKubeClient({ kubeconfigPath, fieldManager: 'semblance-test' });
  const clients: KubeClient[] = [admin];
  const manifests = await render(undefined, options.sets, undefined, namespace);
  const kinds = [...RIGHTS, ...(options.policies === false ? [] : POLICIES)];
  const made: Manifest[] = [];
  for (const kind of kinds) {
    for (const manifest of ofKind(manifests, kind)) {
      await api.create(manifest);
      if (IN_NO_NAMESPACE.test(kind)) made.push(manifest);
    }
  }
  const account = (name: string) => `rel-semblance-${name}`;

  async function subject(name: string, token: string | undefined): Promise<Subject> {
    const text = parse(await readFile(kubeconfigPath, 'utf8')) as { users: { user: object }[] };
    for (const each of text.users) each.user = { token };
    const path = `${kubeconfigPath}-${name}`;
    await writeFile(path, stringify(text), { mode: 0o600 });
    const client = createKubeClient({ kubeconfigPath: path, fieldManager: name, maxRepeats: 0 });
    clients.push(client);
    return { client, kubeconfigPath: path };
  }

  async function tokenOf(name: string, boundTo?: { readonly name: string; readonly uid: string }) {
    const boundObjectRef = boundTo && { apiVersion: 'v1', kind: 'Pod', ...boundTo };
    const body = { spec: { audiences: [], expirationSeconds: 3_600, ...(boundTo && { boundObjectRef }) } };
    const { status } = await core.createNamespacedServiceAccountToken({ name, namespace, body });
    return status?.token;
  }

  return {
    namespace,
    kubeconfigPath,
    admin,
    async pod(name) {
      const spec = {
        serviceAccountName: account('agent'),
        containers: [{ name: 'agent', image: 'localhost/none' }],
      };
      const pod = await core.createNamespacedPod({ namespace, body: { metadata: { name }, spec } });
      const uid = pod.metadata?.uid ?? '';
      return { uid, ...(await subject(name, await tokenOf(account('agent'), { name, uid }))) };
    },
    component: async (name) => subject(name, await tokenOf(account(name))),
    async person(name, clusterRole) {
      await core.createNamespacedServiceAccount({ namespace, body: { metadata: { name } } });
      await api.create({
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'RoleBinding',
        metadata: { name, namespace },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: clusterRole },
        subjects: [{ kind: 'ServiceAccount', name, namespace }],
      } as Manifest);
      return subject(name, await tokenOf(name));
    },
    async close() {
      for (const client of clients) await client.close();
      for (const manifest of made.reverse()) await api.delete(manifest);
      await kube.close();
    },
  };
}
