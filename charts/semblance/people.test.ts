import { type KubeClient, LEASE_RESOURCE } from '@semblance/common/kube/index';
import { AGENTPOOL_RESOURCE, type AgentPool } from '@semblance/crds/gen/agentpools';
import { GPUAGENT_RESOURCE } from '@semblance/crds/gen/gpuagents';
import { RENDERJOB_RESOURCE, type RenderJob } from '@semblance/crds/gen/renderjobs';
import { ofKind, poolsOf, render } from '@semblance/testkit/chart/chart';
import { installRights, type Rights } from '@semblance/testkit/chart/rights';
import { eventually } from '@semblance/testkit/stack/eventually';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

let rights: Rights;
/** People with the rights of the chart's ClusterRoles, as Kubernetes aggregates them. */
let viewer: KubeClient;
let editor: KubeClient;
let owner: KubeClient;
let serial = 0;

beforeAll(async () => {
  rights = await installRights();
  const role = (name: string) => `${rights.namespace}-rel-semblance-${name}`;
  viewer = (await rights.person('viewer', role('view'))).client;
  editor = (await rights.person('editor', role('edit'))).client;
  owner = (await rights.person('owner', role('everything'))).client;
  await eventually('the policies to be in force', async () => {
    const refusals = await Promise.all([
      job(editor, { priority: 1 }).catch(({ message }: Error) => message),
      pool({ hostNetwork: true }).catch(({ message }: Error) => message),
    ]);
    return refusals.every((each) => String(each).includes('ValidatingAdmissionPolicy')) || undefined;
  });
});
afterAll(() => rights?.close());

const named = (prefix: string) => ({ name: `${prefix}-${++serial}`, namespace: rights.namespace });

function job(client: KubeClient, spec: Partial<RenderJob['spec']> = {}) {
  const inputs = [
    { name: 'image', key: 'api/own/base.jpg' },
    { name: 'face', key: 'api/own/face.jpg' },
  ];
  const metadata = named('job');
  return client.create(RENDERJOB_RESOURCE, {
    metadata,
    spec: { capability: 'face-swap-image', inputs, ...spec } as RenderJob['spec'],
  });
}

function pool(spec: object, template: object = {}, client = owner) {
  const containers = [{ name: 'agent', image: 'localhost/none' }];
  return client.create(AGENTPOOL_RESOURCE, {
    metadata: named('pool'),
    spec: { replicas: 0, template: { spec: { containers, ...spec }, ...template } } as AgentPool['spec'],
  });
}
const forbidden = (verb: string, resource: string) => new RegExp(`cannot ${verb} resource "${resource}"`);

describe('the right to view', () => {
  it('sees agents and sessions, and neither the files of accounts nor pools, and changes nothing', async () => {
    const { namespace } = rights;
    await viewer.list(GPUAGENT_RESOURCE, { namespace });
    await expect(viewer.list(RENDERJOB_RESOURCE, { namespace })).rejects.toThrow(
      forbidden('list', 'renderjobs'),
    );
    const made = await job(rights.admin);
    const ref = { namespace, name: made.metadata.name ?? '' };
    await expect(viewer.get(RENDERJOB_RESOURCE, ref)).rejects.toThrow(forbidden('get', 'renderjobs'));
    await expect(viewer.list(AGENTPOOL_RESOURCE, { namespace })).rejects.toThrow(
      forbidden('list', 'agentpools'),
    );
    await expect(viewer.list(LEASE_RESOURCE, { namespace })).rejects.toThrow(forbidden('list', 'leases'));
    await expect(job(viewer)).rejects.toThrow(forbidden('create', 'renderjobs'));
  });
});

describe('the right to edit', () => {
  it('makes, reads, suspends and deletes a job of its own, and lists none', async () => {
    const made = await job(editor, { priority: -5 });
    const ref = { namespace: rights.namespace, name: made.metadata.name ?? '' };
    await editor.mergePatch(RENDERJOB_RESOURCE, ref, { spec: { suspend: true } });
    await editor.mergePatch(RENDERJOB_RESOURCE, ref, { spec: { priority: -100 } });
    expect((await editor.get(RENDERJOB_RESOURCE, ref)).spec).toMatchObject({ suspend: true, priority: -100 });
    await editor.delete(RENDERJOB_RESOURCE, ref);
    await expect(editor.list(RENDERJOB_RESOURCE, { namespace: rights.namespace })).rejects.toThrow(
      forbidden('list', 'renderjobs'),
    );
  });

  it('makes no pool and no agent', async () => {
    await expect(pool({}, {}, editor)).rejects.toThrow(forbidden('create', 'agentpools'));
    await expect(editor.create(GPUAGENT_RESOURCE, { metadata: named('rogue'), spec: {} })).rejects.toThrow(
      forbidden('create', 'gpuagents'),
    );
  });

  it.each<[string, Partial<RenderJob['spec']>, RegExp]>([
    ['goes ahead of others', { priority: 1 }, /need the right to prioritise renderjobs/],
    ['goes ahead by a class', { priorityClassName: 'urgent' }, /need the right to prioritise/],
    ['works for an account', { account: 'acc_1' }, /need the right to useuploads/],
    [
      'reads the upload of an account',
      {
        inputs: [
          { name: 'image', key: 'api/own/base.jpg' },
          { name: 'face', key: 'api/up-1a2b3c' },
        ],
      },
      /need the right to useuploads of renderjobs, which system:serviceaccount:.*:editor lacks/,
    ],
  ])('is refused when a job %s, and the owner may', async (_what, spec, message) => {
    await expect(job(editor, spec)).rejects.toThrow(message);
    await job(owner, spec);
    // As kubectl with the rights of an administrator, and as the control plane.
    await job(rights.admin, spec);
    await job((await rights.component('control-plane')).client, spec);
  });

  it('is refused when it raises the priority of a job later, and changes all else of one that has it', async () => {
    const own = await job(editor);
    const urgent = await job(owner, { priority: 10 });
    const patch = (of: RenderJob, spec: object) =>
      editor.mergePatch(
        RENDERJOB_RESOURCE,
        { namespace: rights.namespace, name: of.metadata.name ?? '' },
        { spec },
      );
    await expect(patch(own, { priority: 1 })).rejects.toThrow('prioritise');
    await expect(patch(own, { priorityClassName: 'urgent' })).rejects.toThrow('prioritise');
    await expect(patch(urgent, { priority: 11 })).rejects.toThrow('prioritise');
    await patch(urgent, { suspend: true });
    await patch(urgent, { priority: 5 });
    await expect(patch(urgent, { priority: 10 })).rejects.toThrow('prioritise');
  });
});

describe('the template of a pool', () => {
  const agent = (more: object) => ({ containers: [{ name: 'agent', image: 'localhost/none', ...more }] });
  const first = (more: object) => ({ initContainers: [{ name: 'first', image: 'localhost/none', ...more }] });
  const env = (name: string, key: string) => ({
    env: [{ name: 'X', valueFrom: { secretKeyRef: { name, key } } }],
  });
  const volume = (more: object) => ({ volumes: [{ name: 'v', ...more }] });
  const ours = /reads a Secret of Semblance/;
  const host = /takes the network, the processes or a port of the node/;
  const kinds = /the volumes of the template are of the kinds/;
  const account = /names a service account of Semblance/;

  it.each<[string, object, RegExp]>([
    ['the account of the operator', { serviceAccountName: 'rel-semblance-operator' }, account],
    ['that account by its old field', { serviceAccount: 'rel-semblance-hooks' }, account],
    ['the admin token', agent(env('rel-semblance-internal', 'admin-token')), ours],
    ['the key of links, at first', first(env('rel-semblance-internal', 'objects-signing-key')), ours],
    ['the database', first({ envFrom: [{ secretRef: { name: 'rel-semblance-postgres' } }] }), ours],
    ['the authority', volume({ secret: { secretName: 'rel-semblance-ca' } }), ours],
    [
      'the key of another component',
      volume({ secret: { secretName: 'rel-semblance-operator-certificate' } }),
      ours,
    ],
    ['the key of all agents', volume({ secret: { secretName: 'rel-semblance-agent-certificate' } }), ours],
    [
      'that key by no item',
      volume({ secret: { secretName: 'rel-semblance-agent-certificate', items: [] } }),
      ours,
    ],
    [
      'that key among items',
      volume({
        secret: {
          secretName: 'rel-semblance-agent-certificate',
          items: [
            { key: 'ca.crt', path: 'a' },
            { key: 'tls.key', path: 'b' },
          ],
        },
      }),
      ours,
    ],
    [
      'a Secret within a projection',
      volume({ projected: { sources: [{ secret: { name: 'rel-semblance-internal' } }] } }),
      ours,
    ],
    [
      'a Secret for a driver',
      volume({ csi: { driver: 'x', nodePublishSecretRef: { name: 'rel-semblance-internal' } } }),
      ours,
    ],
    ['what Helm keeps', volume({ secret: { secretName: 'sh.helm.release.v1.rel.v1' } }), ours],
    ['a path of the node', volume({ hostPath: { path: '/' } }), kinds],
    [
      'an old kind of volume with a Secret',
      volume({ cephfs: { monitors: ['x'], secretRef: { name: 'rel-semblance-internal' } } }),
      kinds,
    ],
    ['the network of the node', { hostNetwork: true }, host],
    ['its processes', { hostPID: true }, host],
    ['its shared memory', { hostIPC: true }, host],
    ['one of its ports', agent({ ports: [{ containerPort: 80, hostPort: 80 }] }), host],
    ['everything', first({ securityContext: { privileged: true } }), host],
  ])('is refused with %s', async (_what, spec, message) => {
    await expect(pool(spec)).rejects.toThrow(message);
    // Who may do everything goes by the same rules.
    await expect(pool(spec, {}, rights.admin)).rejects.toThrow(message);
  });

  it('is refused as a Pod of another component', async () => {
    const labels = { 'app.kubernetes.io/component': 'gateway' };
    await expect(pool({}, { metadata: { labels } })).rejects.toThrow('the label app.kubernetes.io/component');
  });

  it('has what an agent needs, and Secrets and volumes of its own', async () => {
    const made = await pool({
      serviceAccountName: 'rel-semblance-agent',
      ...agent({
        ...env('rel-semblance-internal', 'internal-token'),
        envFrom: [{ secretRef: { name: 'own' } }],
      }),
      volumes: [
        {
          name: 'tls',
          secret: {
            secretName: 'rel-semblance-agent-certificate',
            items: [{ key: 'ca.crt', path: 'ca.crt' }],
          },
        },
        { name: 'own', secret: { secretName: 'own' } },
        { name: 'models', persistentVolumeClaim: { claimName: 'models' } },
        { name: 'work', emptyDir: {} },
        {
          name: 'all',
          projected: { sources: [{ secret: { name: 'own' } }, { configMap: { name: 'own' } }] },
        },
      ],
    });
    expect(made.metadata.name).toBeDefined();
    for (const file of [undefined, 'gpu', 'external'] as const) {
      for (const { metadata, spec } of poolsOf(await render(file))) {
        const ref = { name: `${metadata.name}-${file}`, namespace: rights.namespace };
        await owner.create(AGENTPOOL_RESOURCE, { metadata: ref, spec });
      }
    }
  });

  it('is left alone where it was there before the policy, and may not grow worse', async () => {
    const hooks = await rights.component('hooks');
    const { metadata } = await pool({ hostNetwork: true }, {}, hooks.client);
    const ref = { name: metadata.name ?? '', namespace: rights.namespace };
    await owner.mergePatch(AGENTPOOL_RESOURCE, ref, { spec: { replicas: 3 } });
    const worse = { spec: { template: { spec: { hostPID: true } } } };
    await expect(owner.mergePatch(AGENTPOOL_RESOURCE, ref, worse)).rejects.toThrow(host);
    await owner.mergePatch(AGENTPOOL_RESOURCE, ref, { spec: { template: { spec: { hostNetwork: false } } } });
  });
});

it('nodes are open to templates when the owner says so, and Secrets are not', async () => {
  const open = await installRights({ sets: { 'admissionPolicies.poolsOnHosts': true } });
  const apply = (spec: object) =>
    open.admin.create(AGENTPOOL_RESOURCE, {
      metadata: { name: `pool-${++serial}`, namespace: open.namespace },
      spec: {
        template: { spec: { containers: [{ name: 'agent', image: 'localhost/none' }], ...spec } },
      } as AgentPool['spec'],
    });
  const secret = { volumes: [{ name: 'v', secret: { secretName: 'rel-semblance-ca' } }] };
  await eventually('the policy to be in force', () =>
    apply(secret).then(
      () => undefined,
      () => true,
    ),
  );
  await apply({ hostNetwork: true, volumes: [{ name: 'v', hostPath: { path: '/dev' } }] });
  await open.close();
});

describe('the roles for people', () => {
  const labelsOf = (manifests: Awaited<ReturnType<typeof render>>, name: string) =>
    Object.keys(
      ofKind(manifests, 'ClusterRole').find(({ metadata }) => metadata.name.endsWith(name))?.metadata
        .labels ?? {},
    ).flatMap((label) => /aggregate-to-(\w+)$/.exec(label)?.[1] ?? []);

  it('are part of view and edit of Kubernetes, and the one with everything is part of none', async () => {
    const manifests = await render();
    expect(labelsOf(manifests, '-view')).toEqual(['view', 'edit', 'admin']);
    expect(labelsOf(manifests, '-edit')).toEqual(['edit', 'admin']);
    expect(labelsOf(manifests, '-everything')).toEqual([]);
    expect(ofKind(await render('plain'), 'ClusterRole')).toEqual([]);
  });
});
