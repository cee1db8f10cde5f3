import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { run } from '@semblance/common/process/run';
import { type Api, apiOf } from '@semblance/testkit/stack/api';
import { eventually } from '@semblance/testkit/stack/eventually';
import { kubectlOf } from '@semblance/testkit/stack/kubectl';
import type { StackFile } from '@semblance/testkit/stack/stack-process';
import { clusterAt } from '../cluster.ts';

/** Folder of the cluster that `run.ts` has started and loaded. */
const dir = required('SEMBLANCE_CLUSTER_DIR');
export const cluster = await clusterAt(dir);

export const NAMESPACE = 'semblance';
/** With this name, the names of its objects do not begin with the chart's name. */
export const RELEASE = 'semblance';
const CHART = join(import.meta.dirname, '../../../charts/semblance');

const env = { ...process.env, KUBECONFIG: cluster.kubeconfig };
export const kubectl = kubectlOf(
  () => ({ kubeconfig: cluster.kubeconfig, namespace: NAMESPACE }) as StackFile,
);

export const helm = (args: readonly string[]) =>
  run(cluster.helm, ['--namespace', NAMESPACE, ...args], { env });

/** Installs the chart with its default settings. */
export async function install(more: readonly string[] = []): Promise<void> {
  await helm(['install', RELEASE, CHART, '--wait', '--timeout', '5m', ...more]);
  await untilReady();
}

export async function upgrade(more: readonly string[]): Promise<void> {
  await helm(['upgrade', RELEASE, CHART, '--reset-then-reuse-values', '--wait', '--timeout', '5m', ...more]);
  await untilReady();
}

/** Creates the namespace with the strictest of the Pod Security Standards. */
export async function makeNamespace(): Promise<void> {
  await kubectl.apply({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: NAMESPACE, labels: { 'pod-security.kubernetes.io/enforce': 'restricted' } },
  });
}

export type Pod = {
  metadata: { name: string; uid: string; deletionTimestamp?: string };
  spec: { nodeName?: string };
  status: {
    phase: string;
    conditions?: { type: string; status: string }[];
    containerStatuses?: {
      name: string;
      containerID?: string;
      restartCount: number;
      lastState?: { terminated?: { message?: string } };
    }[];
  };
};

export async function list<T>(kind: string, selector?: string): Promise<T[]> {
  const text = await kubectl(['get', kind, '-o', 'json', ...(selector ? ['-l', selector] : [])]);
  return (JSON.parse(text) as { items: T[] }).items;
}

export const pods = (component: string) => list<Pod>('pods', `app.kubernetes.io/component=${component}`);

export const isReady = (pod: Pod) =>
  !pod.metadata.deletionTimestamp &&
  (pod.status.conditions ?? []).some(({ type, status }) => type === 'Ready' && status === 'True');

export type Agent = {
  metadata: { name: string };
  status?: { conditions?: { type: string; status: string; reason: string; message: string }[] };
};

export const agents = () => list<Agent>('gpuagents');

export const readiness = (agent: Agent) =>
  agent.status?.conditions?.find(({ type }) => type === 'Ready') ?? {
    status: 'Unknown',
    reason: '',
    message: '',
  };

/** Waits until an agent can take work. Its Pod belongs to the operator, so Helm does not wait for it. */
export async function untilReady(): Promise<void> {
  await eventually(
    'an agent that is ready',
    async () => {
      const ready = (await pods('agent')).filter(isReady).map(({ metadata }) => metadata.name);
      const known = (await agents()).filter((agent) => readiness(agent).status === 'True');
      return known.some(({ metadata }) => ready.includes(metadata.name)) || undefined;
    },
    { withinMs: 180_000, everyMs: 500 },
  );
}

/** Returns a key of a new account with money. */
async function newKey(): Promise<string> {
  const admin = async (...args: string[]) =>
    JSON.parse(
      await kubectl([
        ...['exec', `deployment/${RELEASE}-control-plane`, '--'],
        ...['node', 'control-plane/admin/cli.ts', ...args, '--json'],
      ]),
    ) as Record<string, string>;
  const made = await admin('account', 'create', '--name', `t${Date.now()}`, '--balance-usd', '100');
  const { api_key: apiKey = '', key_id: key = '' } = made;
  // The tests poll with this key, and the 60 requests per minute of a new key last for four seconds.
  await admin('key', 'limit', '--key', key, '--per-minute', '1000000');
  return apiKey;
}

/** Runs `use` with the API of the gateway's Service, as a client outside reaches it, and a new account with money. */
export async function withApi<T>(use: (api: Api) => Promise<T>): Promise<T> {
  const apiKey = await newKey();
  const forward = spawn(
    cluster.kubectl,
    ['--namespace', NAMESPACE, 'port-forward', `service/${RELEASE}-gateway`, ':8080'],
    { env, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  try {
    const said: string[] = [];
    createInterface({ input: forward.stderr }).on('line', (line) => said.push(line));
    const port = await new Promise<string>((resolve, reject) => {
      createInterface({ input: forward.stdout }).on('line', (line) => {
        const found = /^Forwarding from 127\.0\.0\.1:(\d+) /.exec(line)?.[1];
        if (found) resolve(found);
      });
      forward.once('error', reject);
      forward.once('exit', () => reject(new Error(`kubectl port-forward ended: ${said.join('; ')}`)));
    });
    return await use(apiOf({ baseUrl: `http://127.0.0.1:${port}/api/v1`, apiKey }));
  } finally {
    forward.kill();
  }
}

/**
 * Like `withApi`, but at a port of the node. `kubectl port-forward` ends with the Pod that it chose; a client
 * behind a load balancer does not.
 */
export async function withNodePort<T>(use: (api: Api) => Promise<T>): Promise<T> {
  const apiKey = await newKey();
  const name = 'outside';
  await kubectl.apply({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name },
    spec: {
      type: 'NodePort',
      selector: { 'app.kubernetes.io/instance': RELEASE, 'app.kubernetes.io/component': 'gateway' },
      ports: [{ port: 8080, targetPort: 'http' }],
    },
  });
  try {
    const port = await kubectl(['get', 'service', name, '-o', 'jsonpath={.spec.ports[0].nodePort}']);
    const baseUrl = `http://${await nodeAddress()}:${port}/api/v1`;
    const answers = async () => (await fetch(`${baseUrl}/pricing`)).ok || undefined;
    await eventually('the port of the node to answer', answers);
    return await use(apiOf({ baseUrl, apiKey }));
  } finally {
    // The Service may already be deleted, together with the namespace.
    await kubectl(['delete', 'service', name, '--ignore-not-found']);
  }
}

/** Returns the internal address of the node. */
export const nodeAddress = () =>
  kubectl([
    ...['get', 'node', cluster.node, '-o'],
    'jsonpath={.status.addresses[?(@.type=="InternalIP")].address}',
  ]);

/** Returns the name of the operator's Pod that leads. */
export async function leader(): Promise<string> {
  const lease = JSON.parse(await kubectl(['get', 'lease', 'semblance-operator', '-o', 'json'])) as {
    spec: { holderIdentity?: string };
  };
  return lease.spec.holderIdentity ?? '';
}

function required(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run npm run test:cluster`);
  return value;
}
