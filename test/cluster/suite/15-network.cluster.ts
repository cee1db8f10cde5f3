import { once } from 'node:events';
import { createServer } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { addressBeside, reachable } from './reach.ts';
import { kubectl, NAMESPACE, nodeAddress, type Pod, pods, upgrade } from './release.ts';

const STRANGERS = 'strangers';
const outside = createServer((socket) => socket.end());
/** Listens where servers of names do. */
const names = createServer((socket) => socket.end());
/** Addresses, by the names of their servers. */
let targets: Record<string, string>;

type Addressed = Pod & { spec: { containers: { image: string }[] }; status: { podIP?: string } };
const first = async (component: string) => {
  const [pod] = (await pods(component)) as Addressed[];
  if (!pod?.status.podIP) throw new Error(`there is no Pod of ${component}`);
  return pod;
};
const nameOf = async (component: string) => (await first(component)).metadata.name;

/** Creates a Pod that is not part of the release and that listens. */
async function stranger(namespace: string, image: string): Promise<string> {
  await kubectl(
    ['apply', '--namespace', namespace, '-f', '-'],
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'stranger', namespace, labels: { 'app.kubernetes.io/name': 'stranger' } },
      spec: {
        terminationGracePeriodSeconds: 0,
        automountServiceAccountToken: false,
        securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
        containers: [
          {
            name: 'stranger',
            image,
            command: ['node', '-e', "require('node:net').createServer((s) => s.end()).listen(8000)"],
            readinessProbe: { tcpSocket: { port: 8000 }, periodSeconds: 1 },
            securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
          },
        ],
      },
    }),
  );
  await kubectl([
    ...['wait', '--namespace', namespace, '--for=condition=Ready', 'pod/stranger', '--timeout=55s'],
  ]);
  return (
    await kubectl(['get', 'pod', 'stranger', '-n', namespace, '-o', 'jsonpath={.status.podIP}'])
  ).trim();
}

beforeAll(async () => {
  outside.listen(0, '0.0.0.0');
  await once(outside, 'listening');
  const beside = addressBeside(await nodeAddress());
  names.listen(53, beside);
  await once(names, 'listening');
  const image = (await first('gateway')).spec.containers[0]?.image ?? '';
  await kubectl(['create', 'namespace', STRANGERS]);
  const address = await stranger(STRANGERS, image);
  await stranger(NAMESPACE, image);
  const [agent, operator] = await Promise.all(['agent', 'operator'].map(first));
  targets = {
    gateway: `semblance-gateway.${NAMESPACE}.svc:8080`,
    'kube-apiserver': 'kubernetes.default.svc:443',
    'control plane': `semblance-control-plane.${NAMESPACE}.svc:9090`,
    operator: `${operator?.status.podIP}:9091`,
    agent: `${agent?.status.podIP}:9092`,
    postgres: `semblance-postgres.${NAMESPACE}.svc:5432`,
    nats: `semblance-nats.${NAMESPACE}.svc:4222`,
    'metrics of an agent': `${agent?.status.podIP}:8081`,
    'metrics of the operator': `${operator?.status.podIP}:8081`,
    'Pod of another namespace': `${address}:8000`,
    'server of names outside': `${beside}:53`,
    'address outside': `${beside}:${(outside.address() as { port: number }).port}`,
  };
});

afterAll(async () => {
  outside.close();
  names.close();
  await kubectl(['delete', 'pod', 'stranger', '--wait=false', '--ignore-not-found']);
  await kubectl(['delete', 'namespace', STRANGERS, '--wait=false', '--ignore-not-found']);
});

test('the control plane reaches all that others are kept from, so that something is there', async () => {
  const { 'metrics of an agent': _agent, 'metrics of the operator': _operator, ...rest } = targets;
  expect(await reachable({ pod: await nameOf('control-plane') }, rest)).toEqual(Object.keys(rest));
});

test('an agent reaches the gateway and the Kubernetes API, and nothing else', async () => {
  // The agent itself is left out, because no network lies between.
  const { agent: _agent, 'metrics of an agent': _metrics, ...rest } = targets;
  expect(await reachable({ pod: await nameOf('agent'), container: 'agent' }, rest)).toEqual([
    'gateway',
    'kube-apiserver',
  ]);
});

test('gateway and operator reach those that they call', async () => {
  const within = ['gateway', 'control plane', 'operator', 'agent', 'postgres', 'nats'];
  const services = Object.fromEntries(within.map((name) => [name, targets[name] ?? '']));
  const { gateway: _gateway, ...fromGateway } = services;
  expect(await reachable({ pod: await nameOf('gateway') }, fromGateway)).toEqual(['control plane', 'agent']);
  const { operator: _operator, ...fromOperator } = services;
  expect(await reachable({ pod: await nameOf('operator') }, fromOperator)).toEqual([
    'gateway',
    'control plane',
    'agent',
  ]);
});

const ours = () => {
  const {
    'kube-apiserver': _api,
    'Pod of another namespace': _pod,
    'server of names outside': _names,
    'address outside': _out,
    ...rest
  } = targets;
  return rest;
};

test.each([STRANGERS, NAMESPACE])(
  "a stranger's Pod in the namespace %s reaches the gateway alone, and no figures",
  async (namespace) => {
    expect(await reachable({ pod: 'stranger', namespace }, ours())).toEqual(['gateway']);
  },
);

test('networkPolicy.metricsFrom says who reaches figures', async () => {
  const from = [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': STRANGERS } } }];
  await upgrade([`--set-json=networkPolicy.metricsFrom=${JSON.stringify(from)}`]);
  await expect
    .poll(() => reachable({ pod: 'stranger', namespace: STRANGERS }, ours()), { timeout: 30_000 })
    .toEqual(['gateway', 'metrics of an agent', 'metrics of the operator']);
  expect(await reachable({ pod: 'stranger', namespace: NAMESPACE }, ours())).toEqual(['gateway']);
});
