import { createKubeClient, type KubeClient, LEASE_RESOURCE, type Lease } from '@semblance/common/kube/index';
import { silentLogger } from '@semblance/common/logging';
import { GPUAGENT_RESOURCE, type GpuAgent } from '@semblance/crds/gen/gpuagents';
import { testKube } from '@semblance/testkit/servers/shared';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createAgentController } from './controller.ts';
import type { LeaseState } from './view.ts';
import { viewOf } from './view.ts';

let kube: Awaited<ReturnType<typeof testKube>>;
let client: KubeClient;
let ending: AbortController;

beforeEach(async () => {
  kube = await testKube();
  client = createKubeClient({ kubeconfigPath: kube.kubeconfigPath, fieldManager: 'semblance-operator' });
  ending = new AbortController();
});

afterEach(async () => {
  ending.abort(new Error('the test ends'));
  await client.close();
  await kube.close();
});

const ref = (name: string) => ({ name, namespace: kube.namespace });

async function agentOf(name: string): Promise<GpuAgent> {
  await client.apply(GPUAGENT_RESOURCE, { metadata: ref(name), spec: {} });
  const status = { incarnation: 'first', address: '127.0.0.1:1', slots: 1 };
  const by = { subresource: 'status', fieldManager: 'semblance-agent' } as const;
  return client.apply(GPUAGENT_RESOURCE, { metadata: ref(name), status }, by);
}

const leaseOf = (name: string, holder: string): Promise<Lease> =>
  client.create(LEASE_RESOURCE, { metadata: ref(name), spec: { holderIdentity: holder } } as Lease);

/** Creates a controller at the real API, whose local copies stay as given except for its own writes. */
function controllerOf(of: {
  agents: Map<string, GpuAgent>;
  leases: Map<string, Lease>;
  stateOf: (holder: string) => LeaseState;
  /** Fault of the connection to each agent; undefined while connecting. */
  faults?: Map<string, string | undefined>;
  retentionMs?: number;
}) {
  const { agents, leases, stateOf, faults, retentionMs = 1 } = of;
  const asked: string[] = [];
  const events: string[] = [];
  let writes = 0;
  const recording: KubeClient = {
    ...client,
    async apply(resource, object, options) {
      const done = client.apply(resource, object, options);
      await done.catch(() => {});
      writes++;
      return done;
    },
    async delete(resource, object, options) {
      const done = client.delete(resource, object, options);
      await done.catch(() => {});
      asked.push(`${resource.kind} ${object.name}`);
      return done;
    },
  };
  const controller = createAgentController({
    client: recording,
    agents: {
      get: (name) => agents.get(name),
      // Behaves like the watch.
      note(agent) {
        const { name = '' } = agent.metadata;
        agents.set(name, agent);
        controller.touch(name);
      },
    },
    leases: { get: (name) => leases.get(name) },
    leaseTracker: { stateOf: (_, holder) => stateOf(holder) },
    fleet: {
      viewOf(agent) {
        const { name = '' } = agent.metadata;
        const lease = stateOf(agent.status?.incarnation ?? '');
        return viewOf({ agent, lease, connected: !faults?.has(name), fault: faults?.get(name) });
      },
      fateOf: (_, incarnation) => (stateOf(incarnation) === 'lost' ? 'lost' : 'connected'),
    },
    scheduler: { usedOn: () => 0 },
    live: { usedOn: () => new Map() },
    recorder: {
      event: ({ metadata }, { type, reason }) => void events.push(`${metadata.name}: ${type} ${reason}`),
      run: async () => {},
    },
    logger: silentLogger(),
    registry: new Registry(),
    retentionMs,
    hasWork: () => false,
  });
  const ended = controller.run(ending.signal);
  return { controller, asked, events, writes: () => writes, ended };
}

it('removes the Lease of a dead process with it, but not one that another process has taken over or made', async () => {
  const names = ['alone', 'over', 'anew'];
  const agents = new Map<string, GpuAgent>();
  const leases = new Map<string, Lease>();
  for (const name of names) {
    agents.set(name, await agentOf(name));
    leases.set(name, await leaseOf(name, 'first'));
  }
  // Another process takes over, but the local copies do not show it yet.
  const over = leases.get('over') as Lease;
  await client.replace(LEASE_RESOURCE, { ...over, spec: { ...over.spec, holderIdentity: 'second' } });
  await client.delete(LEASE_RESOURCE, ref('anew'));
  await leaseOf('anew', 'second');

  const { controller, asked, ended } = controllerOf({ agents, leases, stateOf: () => 'lost' });
  for (const name of names) controller.touch(name);
  await expect
    .poll(() => [...new Set(asked)].filter((each) => each.startsWith('Lease')).toSorted(), {
      timeout: 20_000,
    })
    .toEqual(['Lease alone', 'Lease anew', 'Lease over']);
  const holders = await Promise.all(
    names.map(async (name) => (await client.find(LEASE_RESOURCE, ref(name)))?.spec?.holderIdentity),
  );
  expect(holders).toEqual([undefined, 'second', 'second']);
  ending.abort(new Error('the test ends'));
  await ended;
});

it('leaves the resource of a dead process to another that holds its Lease and is about to register', async () => {
  const agents = new Map([
    ['next', await agentOf('next')],
    ['dead', await agentOf('dead')],
  ]);
  const leases = new Map([
    ['next', await leaseOf('next', 'second')],
    ['dead', await leaseOf('dead', 'first')],
  ]);
  const { controller, asked, ended } = controllerOf({
    agents,
    leases,
    stateOf: (of) => (of === 'first' ? 'lost' : 'held'),
  });
  controller.touch('next');
  controller.touch('dead');
  // Both are processed in turn, again and again while they exist.
  await expect.poll(() => asked, { timeout: 20_000 }).toContain('Lease dead');
  expect(asked.filter((each) => each.endsWith('next'))).toEqual([]);
  ending.abort(new Error('the test ends'));
  await ended;
  expect(await client.find(GPUAGENT_RESOURCE, ref('next'))).toBeDefined();
});

it('tells of the ordinary life of an agent by Normal events, and by a Warning when something is wrong', async () => {
  const agents = new Map<string, GpuAgent>();
  const leases = new Map<string, Lease>();
  const faults = new Map<string, string | undefined>();
  let state: LeaseState = 'held';
  const { controller, events, ended } = controllerOf({
    agents,
    leases,
    faults,
    stateOf: () => state,
    retentionMs: 3_600_000,
  });
  const told = async (name: string, ...expected: string[]) => {
    controller.touch(name);
    const mine = () =>
      events.filter((each) => each.startsWith(`${name}: `)).map((each) => each.slice(name.length + 2));
    await expect.poll(mine, { timeout: 20_000 }).toEqual(expected);
  };
  const registered = async (name: string, draining = false) => {
    const status = { incarnation: 'first', address: '127.0.0.1:1', slots: 1, draining };
    const by = { subresource: 'status', fieldManager: 'semblance-agent' } as const;
    agents.set(name, await client.apply(GPUAGENT_RESOURCE, { metadata: ref(name), status }, by));
  };

  for (const name of ['sound', 'broken']) {
    agents.set(name, await client.apply(GPUAGENT_RESOURCE, { metadata: ref(name), spec: {} }));
    leases.set(name, await leaseOf(name, 'first'));
    faults.set(name, undefined);
    await told(name, 'Normal NotRegistered');
    await registered(name);
    await told(name, 'Normal NotRegistered', 'Normal Unreachable');
  }
  const begun = ['Normal NotRegistered', 'Normal Unreachable'];
  faults.delete('sound');
  await told('sound', ...begun, 'Normal Ready');
  await registered('sound', true);
  await told('sound', ...begun, 'Normal Ready', 'Normal Draining');
  // The agent is unreachable after all. A new reason for that makes no second event.
  faults.set('broken', 'refused');
  await told('broken', ...begun, 'Warning Unreachable');
  faults.set('broken', 'no route');
  await told('broken', ...begun, 'Warning Unreachable');

  state = 'lost';
  const { metadata, spec } = leases.get('sound') as Lease;
  leases.set('sound', { metadata, spec: { ...spec, holderIdentity: '' } } as Lease);
  await told('sound', ...begun, 'Normal Ready', 'Normal Draining', 'Normal HeartbeatLost');
  await told('broken', ...begun, 'Warning Unreachable', 'Warning HeartbeatLost');
  ending.abort(new Error('the test ends'));
  await ended;
});

it('does not overwrite with an older view of an agent what a later leader has written of it', async () => {
  const agents = new Map([['one', await agentOf('one')]]);
  const { metadata } = agents.get('one') as GpuAgent;
  const condition = {
    type: 'Ready',
    status: 'False',
    reason: 'NodeCordoned',
    message: 'Its node is cordoned.',
  } as const;
  const status = { conditions: [{ ...condition, lastTransitionTime: new Date().toISOString() }] };
  const told = await client.apply(
    GPUAGENT_RESOURCE,
    { metadata: ref('one'), status },
    { subresource: 'status' },
  );
  const { controller, events, writes, ended } = controllerOf({
    agents,
    leases: new Map(),
    stateOf: () => 'held' as const,
    retentionMs: 3_600_000,
  });
  controller.touch('one');
  await expect.poll(writes, { timeout: 20_000 }).toBeGreaterThan(1);
  const { resourceVersion } = (await client.get(GPUAGENT_RESOURCE, ref('one'))).metadata;
  expect([resourceVersion, events]).toEqual([told.metadata.resourceVersion, []]);
  expect(metadata.resourceVersion).not.toBe(resourceVersion);
  // Once the controller has seen that version, it writes its condition.
  agents.set('one', told);
  const reason = async () =>
    (await client.get(GPUAGENT_RESOURCE, ref('one'))).status?.conditions?.[0]?.reason;
  await expect.poll(reason, { timeout: 20_000 }).toBe('Ready');
  await expect.poll(() => events).toEqual(['one: Normal Ready']);
  ending.abort(new Error('the test ends'));
  await ended;
});
