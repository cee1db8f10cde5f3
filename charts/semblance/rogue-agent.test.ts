import { isKubeError, type KubeClient, LEASE_RESOURCE } from '@semblance/common/kube/index';
import { GPUAGENT_RESOURCE, type GpuAgent } from '@semblance/crds/gen/gpuagents';
import { installRights, type Rights } from '@semblance/testkit/chart/rights';
import { eventually } from '@semblance/testkit/stack/eventually';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

/** Two agents in Pods of their own. The second is what the first, taken over, goes for. */
let rights: Rights;
let rogue: Awaited<ReturnType<Rights['pod']>>;
let other: Awaited<ReturnType<Rights['pod']>>;

beforeAll(async () => {
  rights = await installRights();
  rogue = await rights.pod('agents-aaaaa');
  other = await rights.pod('agents-bbbbb');
  // A policy takes effect shortly after it is made.
  await eventually('the policy to be in force', async () => {
    const answer = await register(rogue.client, 'nobody', rogue.uid).catch(({ message }: Error) => message);
    return answer?.includes('an agent writes only') || undefined;
  });
  await register(other.client, 'agents-bbbbb', other.uid);
  await other.client.create(LEASE_RESOURCE, lease('agents-bbbbb', other.uid));
  await rights.admin.create(LEASE_RESOURCE, lease('semblance-operator'));
});

afterAll(() => rights?.close());

const ownerOf = (name: string, uid: string) => [{ apiVersion: 'v1', kind: 'Pod', name, uid }];

/** Registers as an agent does. */
async function register(client: KubeClient, name: string, uid: string, status: GpuAgent['status'] = {}) {
  const metadata = { name, namespace: rights.namespace };
  const options = { fieldManager: 'semblance-agent' };
  const ownerReferences = ownerOf(name, uid);
  await client.apply(GPUAGENT_RESOURCE, { metadata: { ...metadata, ownerReferences }, spec: {} }, options);
  await client.apply(GPUAGENT_RESOURCE, { metadata, status }, { ...options, subresource: 'status' });
}

function lease(name: string, uid?: string, holderIdentity = 'x') {
  const ownerReferences = uid === undefined ? [] : ownerOf(name, uid);
  return { metadata: { name, namespace: rights.namespace, ownerReferences }, spec: { holderIdentity } };
}

const statement = { incarnation: 'x', address: '10.9.9.9:9092', slots: 8 };
const otherAgent = () => ({ name: 'agents-bbbbb', namespace: rights.namespace });
const own = () => ({ name: 'agents-aaaaa', namespace: rights.namespace });

describe('the token of an agent', () => {
  it('registers its agent, renews its Lease, and says where it is', async () => {
    await register(rogue.client, 'agents-aaaaa', rogue.uid, statement);
    const made = await rogue.client.create(LEASE_RESOURCE, lease('agents-aaaaa', rogue.uid));
    await rogue.client.replace(LEASE_RESOURCE, { ...made, spec: { holderIdentity: 'y' } });
    const read = await rogue.client.get(GPUAGENT_RESOURCE, own());
    expect(read.status).toMatchObject(statement);
  });

  const refused: [string, RegExp, () => Promise<unknown>][] = [
    [
      'registers under a name of its choice',
      /writes only the GpuAgent and the Lease of its own name/,
      () => register(rogue.client, 'agents-ccccc', rogue.uid),
    ],
    [
      'states another address for another agent',
      /writes only the GpuAgent/,
      () =>
        rogue.client.apply(
          GPUAGENT_RESOURCE,
          { metadata: otherAgent(), status: statement },
          { subresource: 'status', fieldManager: 'semblance-agent' },
        ),
    ],
    [
      'drains another agent',
      /writes only the GpuAgent/,
      () => rogue.client.mergePatch(GPUAGENT_RESOURCE, otherAgent(), { spec: { drain: true } }),
    ],
    [
      'takes the Lease of another agent',
      /writes only the GpuAgent and the Lease/,
      async () => {
        const held = await rogue.client.get(LEASE_RESOURCE, otherAgent());
        await rogue.client.replace(LEASE_RESOURCE, { ...held, spec: { holderIdentity: 'rogue' } });
      },
    ],
    [
      'takes the Lease of the operator',
      /writes only the GpuAgent and the Lease/,
      async () => {
        const ref = { name: 'semblance-operator', namespace: rights.namespace };
        const held = await rogue.client.get(LEASE_RESOURCE, ref);
        const metadata = { ...held.metadata, annotations: { 'semblance.dev/address': '10.9.9.9:1' } };
        await rogue.client.replace(LEASE_RESOURCE, { ...held, metadata });
      },
    ],
    [
      'makes a Lease of a name that nobody has yet',
      /writes only the GpuAgent and the Lease/,
      () => rogue.client.create(LEASE_RESOURCE, lease('agents-ddddd', rogue.uid)),
    ],
    [
      'deletes a Lease',
      /cannot delete resource "leases"/,
      () => rogue.client.delete(LEASE_RESOURCE, otherAgent()),
    ],
    [
      'deletes a GpuAgent',
      /cannot delete resource "gpuagents"/,
      () => rogue.client.delete(GPUAGENT_RESOURCE, otherAgent()),
    ],
    [
      'leaves a GpuAgent behind that outlives its Pod',
      /have its Pod agents-aaaaa as their only owner/,
      () =>
        rogue.client.mergePatch(GPUAGENT_RESOURCE, own(), {
          metadata: { ownerReferences: null },
        }),
    ],
    [
      'names the Pod of another as its owner',
      /have its Pod agents-aaaaa as their only owner/,
      () =>
        rogue.client.mergePatch(GPUAGENT_RESOURCE, own(), {
          metadata: { ownerReferences: ownerOf('agents-bbbbb', other.uid) },
        }),
    ],
    [
      'ends a drain that a person asked for',
      /spec\.drain of a GpuAgent belongs to people/,
      async () => {
        await rights.admin.mergePatch(GPUAGENT_RESOURCE, own(), { spec: { drain: true } });
        await rogue.client.mergePatch(GPUAGENT_RESOURCE, own(), { spec: { drain: false } });
      },
    ],
    [
      'says in the place of the operator that it is ready',
      /conditions of a GpuAgent belong to the operator/,
      () => {
        const at = new Date().toISOString();
        const ready = {
          type: 'Ready',
          status: 'True',
          reason: 'Ready',
          message: 'm',
          lastTransitionTime: at,
        };
        return rogue.client.mergePatch(
          GPUAGENT_RESOURCE,
          own(),
          { status: { conditions: [ready] } },
          { subresource: 'status' },
        );
      },
    ],
    [
      'acts outside of its Pod, with a token that somebody made by hand',
      /counts only in the Pod that it was made for/,
      async () => register((await rights.component('agent')).client, 'agents-aaaaa', rogue.uid),
    ],
  ];
  it.each(refused)('is refused when it %s', async (_what, message, act) => {
    const error = await act().then(
      () => expect.fail('it was let through'),
      (cause: unknown) => cause,
    );
    expect(isKubeError(error)).toBe(true);
    expect((error as Error).message).toMatch(message);
  });
});

describe('the token of the operator', () => {
  it('renews its own Lease alone, and removes those of dead agents', async () => {
    const { client } = await rights.component('operator');
    const renew = async (name: string) => {
      const held = await client.get(LEASE_RESOURCE, { name, namespace: rights.namespace });
      await client.replace(LEASE_RESOURCE, { ...held, spec: { ...held.spec, holderIdentity: 'operator' } });
    };
    await renew('semblance-operator');
    await expect(renew('agents-bbbbb')).rejects.toThrow(/cannot update resource "leases"/);
    await client.delete(LEASE_RESOURCE, otherAgent());
    await client.mergePatch(GPUAGENT_RESOURCE, otherAgent(), { spec: { drain: true } });
  });
});
