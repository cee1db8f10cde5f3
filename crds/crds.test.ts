import { type ResourceRig, startResourceRig } from '@semblance/testkit/crds/crds';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { GPUAGENT_RESOURCE } from './gen/gpuagents.ts';
import { RENDERJOB_RESOURCE, type RenderJobStatus } from './gen/renderjobs.ts';

let rig: ResourceRig;

beforeAll(async () => {
  rig = await startResourceRig();
});

afterAll(() => rig?.close());

const kubectl = (...args: string[]) => rig.kubectl(...args);

const inputs = [
  { name: 'image', key: 'api/a/base.jpg' },
  { name: 'face', key: 'api/a/face.jpg' },
];
const good = { capability: 'face-swap-image', inputs };

const create = (spec: unknown, name?: string) => rig.create(RENDERJOB_RESOURCE, spec, name);

const setStatus = (name: string, status: RenderJobStatus) =>
  rig.client.mergePatch(
    RENDERJOB_RESOURCE,
    { namespace: rig.namespace, name },
    { status },
    { subresource: 'status' },
  );

describe('a RenderJob', () => {
  it('is filled in with defaults', async () => {
    const { spec } = await create(good);
    expect(spec).toEqual({
      ...good,
      priority: 0,
      suspend: false,
      backoffLimit: 2,
      activeDeadlineSeconds: 3600,
    });
  });

  it('is accepted for each capability with its inputs', async () => {
    const roles: Record<string, string[]> = {
      'character-swap': ['video', 'character'],
      'face-swap': ['video', 'face'],
      'face-swap-image': ['image', 'face'],
      'motion-control': ['image', 'motion_video'],
      avatar: ['image'],
      'lip-sync': ['video', 'audio'],
    };
    for (const [capability, names] of Object.entries(roles)) {
      const given = names.map((name) => ({ name, key: `api/x/${name}` }));
      const parameters = capability === 'avatar' ? { script: 'Hello', output_resolution_p: '720' } : {};
      await create({ capability, inputs: given, parameters });
      await expect(create({ capability, inputs: given.slice(1), parameters })).rejects.toMatchObject({
        code: 'invalid',
      });
      const wrong = [{ name: 'nonsense', key: 'api/x' }, ...given.slice(1)];
      await expect(create({ capability, inputs: wrong })).rejects.toThrow(
        `${capability} takes exactly the input`,
      );
    }
  });

  it('takes further pictures of a face, up to eight in all', async () => {
    const faces = Array.from({ length: 7 }, (_, i) => ({ name: `face_${i + 2}`, key: `api/a/face${i}.jpg` }));
    await create({ ...good, inputs: [...inputs, ...faces] });
    const ninth = { name: 'face_9', key: 'api/a/x' };
    for (const given of [
      [...inputs, ninth],
      [inputs[0], ...faces],
      [inputs[1], ...faces],
    ])
      await expect(create({ ...good, inputs: given })).rejects.toThrow(
        'takes exactly the inputs image and face',
      );
  });

  const bad: [string, unknown, RegExp][] = [
    ['no spec', undefined, /spec: Required value/],
    ['no inputs', { capability: 'avatar' }, /spec\.inputs: Required value/],
    [
      'an unknown capability',
      { ...good, capability: 'voice' },
      /Unsupported value: "voice": supported values: /,
    ],
    [
      'a key outside the uploads',
      { ...good, inputs: [{ name: 'image', key: 'out/u/1.jpg' }, inputs[1]] },
      /spec\.inputs\[0\]\.key in body should match/,
    ],
    [
      'a key that climbs',
      { ...good, inputs: [{ name: 'image', key: 'api/a..b' }, inputs[1]] },
      /a key has no '\.\.' in it/,
    ],
    [
      'a hidden key',
      { ...good, inputs: [{ name: 'image', key: 'api/.ssh/x' }, inputs[1]] },
      /spec\.inputs\[0\]\.key in body should match/,
    ],
    [
      'a URL for a key',
      { ...good, inputs: [{ name: 'image', key: 'https://x/y' }, inputs[1]] },
      /should match/,
    ],
    ['a role twice', { ...good, inputs: [inputs[0], inputs[0]] }, /Duplicate value/],
    [
      'too high a priority',
      { ...good, priority: 1001 },
      /spec\.priority in body should be less than or equal to 1000/,
    ],
    ['a number for a parameter', { ...good, parameters: { resolution: 1 } }, /must be of type string/],
    ['an odd parameter name', { ...good, parameters: { 'A b': 'x' } }, /names of parameters are lower case/],
    [
      'too many parameters',
      { ...good, parameters: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`p${i}`, ''])) },
      /must have at most 16 items/,
    ],
    ['a number for an engine option', { ...good, engineOptions: { seed: 1 } }, /must be of type string/],
    [
      'an odd name of an option',
      { ...good, engineOptions: { 'A b': 'x' } },
      /names of engineOptions are lower case/,
    ],
    [
      'too many options',
      { ...good, engineOptions: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`o${i}`, ''])) },
      /must have at most 16 items/,
    ],
    ['an endless attempt', { ...good, activeDeadlineSeconds: 0 }, /greater than or equal to 1/],
    ['an account that is no name', { ...good, account: 'A/B' }, /spec\.account in body should match/],
  ];
  it.each(bad)('is refused with %s', async (_, spec, message) => {
    await expect(create(spec)).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringMatching(message),
    });
  });

  it('is refused under a name too long for a label', async () => {
    await expect(create(good, 'x'.repeat(64))).rejects.toThrow('the name has at most 63 characters');
  });

  it('cannot be made into other work, but held back, moved up, or given more time to wait', async () => {
    const { metadata } = await create({ ...good, account: 'acc' });
    const ref = { namespace: rig.namespace, name: metadata.name ?? '' };
    const patch = (spec: object) => rig.client.mergePatch(RENDERJOB_RESOURCE, ref, { spec });
    const fixed: [object, string][] = [
      [{ capability: 'face-swap' }, 'capability is immutable'],
      [{ inputs: [inputs[0], { name: 'face', key: 'api/other' }] }, 'inputs are immutable'],
      [{ parameters: { a: 'b' } }, 'parameters are immutable'],
      [{ engineOptions: { a: 'b' } }, 'engineOptions are immutable'],
      [{ account: 'other' }, 'account is immutable'],
      [{ account: null }, 'account is immutable'],
      [{ activeDeadlineSeconds: 5 }, 'activeDeadlineSeconds is immutable'],
    ];
    for (const [change, message] of fixed) await expect(patch(change)).rejects.toThrow(message);
    const changed = await patch({
      suspend: true,
      priority: 5,
      backoffLimit: 0,
      pendingDeadlineSeconds: 60,
      ttlSecondsAfterFinished: 0,
    });
    expect(changed.metadata.generation).toBe(2);
  });

  it('keeps its status apart, its attempt growing and its end final', async () => {
    const { metadata } = await create({ ...good, status: { phase: 'Succeeded' } });
    const name = metadata.name ?? '';
    expect(
      (await rig.client.get(RENDERJOB_RESOURCE, { namespace: rig.namespace, name })).status,
    ).toBeUndefined();
    await setStatus(name, { phase: 'Running', attempt: 2 });
    await expect(setStatus(name, { attempt: 1 })).rejects.toThrow('attempt is the fencing token');
    await expect(setStatus(name, { phase: 'Finished' as never })).rejects.toMatchObject({ code: 'invalid' });
    await setStatus(name, { phase: 'Failed' });
    await expect(setStatus(name, { phase: 'Running' })).rejects.toThrow(
      'a finished job stays as it finished',
    );
  });
});

describe('an output', () => {
  const output = { contentType: 'image/png', sizeBytes: 1, unit: 'image', milliUnits: 1000 } as const;

  it('is recorded under a key of an attempt and no other', async () => {
    const { metadata } = await create(good);
    const name = metadata.name ?? '';
    for (const key of [
      'api/a/b.png',
      'out/u/1',
      'out/u/1.j pg',
      'out/../1.png',
      'out/u/0.png',
      'out/u/1/2.png',
      '',
    ]) {
      await expect(setStatus(name, { output: { ...output, key } }), key).rejects.toMatchObject({
        code: 'invalid',
      });
    }
    const key = `out/${metadata.uid}/12.webp`;
    expect((await setStatus(name, { output: { ...output, key } })).status?.output?.key).toBe(key);
  });
});

describe('what was found out', () => {
  it('is recorded of an attempt without an output, within its bounds', async () => {
    const { metadata } = await create(good);
    const name = metadata.name as string;
    const hint = { code: 'face_turned', message: 'The face is turned.', input: 'image' };
    const findings = {
      faces: { found: 1, changed: 0, left: [{ reason: 'turned_away', count: 1 }] },
      hints: [hint],
    };
    await setStatus(name, { phase: 'Pending', findings });
    const failure = { code: 'face_not_detected', message: 'No face.' } as const;
    const { status } = await setStatus(name, { phase: 'Failed', failure });
    expect(status).toMatchObject({ findings, failure });
    for (const wrong of [{ message: 'm'.repeat(301) }, { code: 'No Code' }])
      await expect(setStatus(name, { findings: { hints: [{ ...hint, ...wrong }] } })).rejects.toMatchObject({
        code: 'invalid',
      });
  });
});

describe('kubectl', () => {
  it('shows jobs and agents, in brief and wide, by short name and category', async () => {
    const namespace = ['-n', rig.namespace];
    await create(good, 'shown');
    const at = new Date().toISOString();
    const condition = { type: 'Ready', lastTransitionTime: at, observedGeneration: 1 };
    await setStatus('shown', {
      phase: 'Pending',
      attempt: 1,
      queuePosition: 3,
      agent: 'gpu-1',
      progress: '42%',
      etaSeconds: 90,
      conditions: [
        {
          ...condition,
          status: 'False',
          reason: 'SlotsBusy',
          message: '3rd of 12 waiting; 2 of 2 slots on 1 agent are busy.',
        },
      ],
    });
    const brief = await kubectl('get', 'rj', 'shown', ...namespace);
    expect(brief).toMatch(/^NAME +CAPABILITY +PHASE +PROGRESS +AGENT +AGE\n/);
    expect(brief).toMatch(/shown +face-swap-image +Pending +42% +gpu-1 +\d+s\n/);
    const wide = await kubectl('get', 'renderjobs', 'shown', '-o', 'wide', ...namespace);
    expect(wide).toMatch(/AGE +ACCOUNT +PLACE +LEFT +ATTEMPT +REASON +MESSAGE\n/);
    expect(wide).toMatch(/ 3 +90 +1 +SlotsBusy /);
    expect(wide).toContain('SlotsBusy   3rd of 12 waiting; 2 of 2 slots on 1 agent are busy.');

    await rig.client.apply(GPUAGENT_RESOURCE, {
      metadata: { namespace: rig.namespace, name: 'gpu-1' },
      spec: {},
    });
    const all = await kubectl('get', 'semblance', ...namespace);
    expect(all).toContain('gpuagent.semblance.dev/gpu-1');
    expect(all).toContain('renderjob.semblance.dev/shown');

    await kubectl('patch', 'ga', 'gpu-1', ...namespace, '--type=merge', '-p', '{"spec":{"drain":true}}');
    const drained = await rig.client.get(GPUAGENT_RESOURCE, { namespace: rig.namespace, name: 'gpu-1' });
    expect(drained.spec.drain).toBe(true);
  });

  it('shows what an agent does not offer, and why', async () => {
    const ref = { namespace: rig.namespace, name: 'gpu-2' };
    await rig.client.apply(GPUAGENT_RESOURCE, { metadata: ref, spec: {} });
    const message = 'ffmpeg and ffprobe are not on PATH';
    const unavailable = [
      { name: 'face-swap', message },
      { name: 'lip-sync', message },
    ];
    const say = (status: object) =>
      rig.client.mergePatch(GPUAGENT_RESOURCE, ref, { status }, { subresource: 'status' });
    await say({ unavailable, unavailableNames: 'face-swap,lip-sync' });
    const namespace = ['-n', rig.namespace];
    const brief = await kubectl('get', 'ga', 'gpu-2', ...namespace);
    expect(brief).not.toContain('face-swap');
    const wide = await kubectl('get', 'ga', 'gpu-2', '-o', 'wide', ...namespace);
    expect(wide).toMatch(/ENGINES +UNAVAILABLE +CHECKS/);
    expect(wide).toContain(' face-swap,lip-sync ');
    const described = await kubectl('describe', 'ga', 'gpu-2', ...namespace);
    expect(described).toMatch(
      /Unavailable:\n +Message: +ffmpeg and ffprobe are not on PATH\n +Name: +face-swap\n/,
    );
    await expect(say({ unavailable: [{ name: 'avatar' }] })).rejects.toThrow('message: Required value');
    await expect(say({ unavailable: [...unavailable, ...unavailable] })).rejects.toThrow('Duplicate value');
  });

  it.each([
    ['Complete', 'Succeeded'],
    ['Finished', 'Succeeded'],
    ['Failed', 'Failed'],
    ['Finished', 'Failed'],
  ] as const)('waits for %s of a job that becomes %s', async (type, phase) => {
    const name = `awaited-${type}-${phase}`.toLowerCase();
    await create(good, name);
    const waiting = kubectl(
      'wait',
      `--for=condition=${type}`,
      `rj/${name}`,
      '-n',
      rig.namespace,
      '--timeout=20s',
    );
    const condition = {
      status: 'True',
      reason: phase,
      message: 'm',
      lastTransitionTime: new Date().toISOString(),
    } as const;
    await setStatus(name, { phase, conditions: [{ ...condition, type }] });
    expect(await waiting).toContain('condition met');
  });

  it('explains every field of the spec', async () => {
    const text = await kubectl('explain', 'renderjob.spec');
    expect(text).toContain('What to render.');
    const fields = [...text.matchAll(/^ {2}(\w+)\t<.*\n((?:(?: {2}enum:| {4}).*\n)*)/gm)];
    expect(fields.map(([, name]) => name)).toEqual([
      ...['account', 'activeDeadlineSeconds', 'backoffLimit', 'capability', 'engineOptions'],
      ...['inputs', 'parameters'],
      ...['pendingDeadlineSeconds', 'priority', 'priorityClassName', 'suspend', 'ttlSecondsAfterFinished'],
    ]);
    for (const [, name, description] of fields) {
      expect(description?.replace(/^ *enum:.*\n/m, '').trim(), name).not.toMatch(/^(<no description>)?$/);
    }
  });
});
