import { type ResourceRig, startResourceRig } from '@semblance/testkit/crds/crds';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { GPUAGENT_RESOURCE } from './gen/gpuagents.ts';
import { LIVESESSION_RESOURCE, type LiveSessionStatus } from './gen/livesessions.ts';

let rig: ResourceRig;

beforeAll(async () => {
  rig = await startResourceRig();
});

afterAll(() => rig?.close());

const kubectl = (...args: string[]) => rig.kubectl(...args);

const good = { capability: 'voice', agent: 'gpu-1', incarnation: 'abc', maxDurationSeconds: 600 };

const create = (spec: unknown, name?: string) => rig.create(LIVESESSION_RESOURCE, spec, name);

const setStatus = (name: string, status: LiveSessionStatus) =>
  rig.client.mergePatch(
    LIVESESSION_RESOURCE,
    { namespace: rig.namespace, name },
    { status },
    { subresource: 'status' },
  );

describe('a LiveSession', () => {
  it('is filled in with defaults, and is Bound without another write', async () => {
    const made = await create(good, 'defaults');
    expect(made.spec).toEqual({ ...good, connectDeadlineSeconds: 60, ttlSecondsAfterFinished: 600 });
    const read = await rig.client.get(LIVESESSION_RESOURCE, { namespace: rig.namespace, name: 'defaults' });
    expect(read.status).toEqual({ phase: 'Bound' });
    expect(read.metadata.resourceVersion).toBe(made.metadata.resourceVersion);
  });

  const bad: [string, unknown, RegExp][] = [
    ['no spec', undefined, /spec: Required value/],
    ['no agent', { ...good, agent: undefined }, /spec\.agent: Required value/],
    ['an empty agent', { ...good, agent: '' }, /spec\.agent in body should be at least 1 chars long/],
    ['no incarnation', { ...good, incarnation: undefined }, /spec\.incarnation: Required value/],
    [
      'a capability that is not live',
      { ...good, capability: 'avatar' },
      /supported values: "voice", "full-live-swap"/,
    ],
    ['no time at all', { ...good, maxDurationSeconds: 0 }, /should be greater than or equal to 1/],
    [
      'more than four hours',
      { ...good, maxDurationSeconds: 14_401 },
      /should be less than or equal to 14400/,
    ],
    [
      'a deadline of an hour and more',
      { ...good, connectDeadlineSeconds: 3_601 },
      /less than or equal to 3600/,
    ],
    ['half a second', { ...good, maxDurationSeconds: 0.5 }, /must be of type integer/],
    ['an account that is no name', { ...good, account: 'A/B' }, /spec\.account in body should match/],
    ['a negative time to live', { ...good, ttlSecondsAfterFinished: -1 }, /greater than or equal to 0/],
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

  it('stays where it was opened and as it was granted; only how long it is kept can be changed', async () => {
    await create({ ...good, account: 'acc_1' }, 'fixed');
    const patch = (spec: object) =>
      kubectl('patch', 'ls', 'fixed', '--type=merge', '-p', JSON.stringify({ spec })).catch(
        (error: { stderr: string }) => error.stderr,
      );
    const where = /capability, agent and incarnation are immutable/;
    expect(await patch({ agent: 'gpu-2' })).toMatch(where);
    expect(await patch({ incarnation: 'def' })).toMatch(where);
    expect(await patch({ capability: 'full-live-swap' })).toMatch(where);
    const granted = /maxDurationSeconds and connectDeadlineSeconds are immutable/;
    expect(await patch({ maxDurationSeconds: 14_400 })).toMatch(granted);
    expect(await patch({ connectDeadlineSeconds: 3_600 })).toMatch(granted);
    expect(await patch({ account: 'acc_2' })).toMatch(/account is immutable/);
    expect(await patch({ account: null })).toMatch(/account is immutable/);
    expect(await patch({ ttlSecondsAfterFinished: 60 })).toContain('livesession.semblance.dev/fixed patched');
  });

  it('refuses a status that means nothing', async () => {
    await create(good, 'odd');
    await expect(setStatus('odd', { phase: 'Paused' as 'Bound' })).rejects.toThrow(
      /Unsupported value: "Paused"/,
    );
    await expect(setStatus('odd', { reason: 'bored' as 'no_stream' })).rejects.toThrow(
      /Unsupported value: "bored"/,
    );
    await expect(setStatus('odd', { streamedSeconds: -1 })).rejects.toThrow(/greater than or equal to 0/);
  });
});

describe('kubectl', () => {
  it('shows where a session runs, how far it is and when it will be stopped', async () => {
    await create({ ...good, account: 'acc_1' }, 'shown');
    expect(await kubectl('get', 'ls', 'shown')).toMatch(/shown +voice +Bound +gpu-1 +600 +\d+s\n/);
    const lastTransitionTime = new Date().toISOString();
    await setStatus('shown', {
      phase: 'Streaming',
      streamedSeconds: 42,
      received: 100,
      converted: 97,
      dropped: 3,
      conditions: [
        {
          type: 'Ready',
          status: 'True',
          reason: 'Streaming',
          message: 'gpu-1 converts its media.',
          lastTransitionTime,
        },
      ],
    });
    const brief = await kubectl('get', 'livesessions', 'shown');
    expect(brief).toMatch(/^NAME +CAPABILITY +PHASE +AGENT +STREAMED +CAP +AGE\n/);
    expect(brief).toMatch(/shown +voice +Streaming +gpu-1 +42 +600 +\d+s\n/);
    const wide = await kubectl('get', 'ls', 'shown', '-o', 'wide');
    expect(wide).toMatch(/AGE +ACCOUNT +DROPPED +REASON +MESSAGE\n/);
    expect(wide).toMatch(/ acc_1 +3 +Streaming +gpu-1 converts its media\.\n/);
    expect(await kubectl('get', 'semblance')).toContain('livesession.semblance.dev/shown');
    await kubectl('wait', '--for=condition=Ready', 'ls/shown', '--timeout=20s');
  });

  it('explains every field of the spec', async () => {
    const text = await kubectl('explain', 'livesession.spec');
    expect(text).toContain('What was opened, and where.');
    const fields = [...text.matchAll(/^ {2}(\w+)\t<.*\n((?:(?: {2}enum:| {4}).*\n)*)/gm)];
    expect(fields.map(([, name]) => name)).toEqual([
      ...['account', 'agent', 'capability', 'connectDeadlineSeconds', 'incarnation', 'maxDurationSeconds'],
      'ttlSecondsAfterFinished',
    ]);
    for (const [, name, description] of fields) {
      expect(description?.replace(/^ *enum:.*\n/m, '').trim(), name).not.toMatch(/^(<no description>)?$/);
    }
    expect(await kubectl('explain', 'livesession.status.phase')).toContain('a slot is held');
  });

  it('shows all engines, checks and live slots of an agent, not the first of each', async () => {
    const ref = { namespace: rig.namespace, name: 'gpu-9' };
    await rig.client.apply(GPUAGENT_RESOURCE, { metadata: ref, spec: {} });
    const status = {
      liveUsed: 3,
      liveNames: 'voice 2/4, full-live-swap 1/1',
      engineNames: 'builtin,onnx',
      checkNames: 'hashes,http',
    };
    await rig.client.mergePatch(GPUAGENT_RESOURCE, ref, { status }, { subresource: 'status' });
    expect(await kubectl('get', 'ga', 'gpu-9')).toMatch(/ voice 2\/4, full-live-swap 1\/1 /);
    const wide = await kubectl('get', 'ga', 'gpu-9', '-o', 'wide');
    expect(wide).toMatch(/USED +LIVE +NODE +AGE +ADDRESS +ENGINES +UNAVAILABLE +CHECKS/);
    expect(wide).toMatch(/ builtin,onnx +hashes,http/);
  });
});
