import { GPUAGENT_RESOURCE, type GpuAgent } from '@semblance/crds/gen/gpuagents';
import { testKube } from '@semblance/testkit/servers/shared';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { silentLogger } from '../logging.ts';
import { type Applied, createKubeClient, type KubeClient } from './client.ts';
import { undeclaredFields, without } from './declared.ts';
import { KubeError } from './errors.ts';

let kube: Awaited<ReturnType<typeof testKube>>;
let client: KubeClient;
const warned: string[] = [];

beforeAll(async () => {
  kube = await testKube();
  const logger = Object.assign(silentLogger(), { warn: (line: string) => void warned.push(line) });
  client = createKubeClient({ kubeconfigPath: kube.kubeconfigPath, fieldManager: 'test', logger });
});
afterAll(async () => {
  await client?.close();
  await kube?.close();
});

describe('a process newer than the definitions of its cluster', () => {
  it('states what they have of its status, and says once what it left out', async () => {
    const metadata = { name: 'newer', namespace: kube.namespace };
    await client.apply(GPUAGENT_RESOURCE, { metadata, spec: {} });
    const condition = { type: 'Ready', status: 'True', reason: 'Fine', message: '', observedGeneration: 1 };
    const since = { lastTransitionTime: '2026-01-01T00:00:00Z' };
    const engine = { name: 'builtin', version: '1', capabilities: [{ name: 'face-swap-image', slots: 1 }] };
    const status = {
      incarnation: 'i1',
      temperature: 70,
      fans: { count: 2 },
      engines: [{ ...engine, speed: 5 }],
      conditions: [{ ...condition, ...since, certainty: 1 }],
    };
    for (let time = 0; time < 2; time++) {
      const written = await client.apply(
        GPUAGENT_RESOURCE,
        { metadata, status } as unknown as Applied<GpuAgent>,
        { subresource: 'status' },
      );
      expect(written.status).toEqual({
        incarnation: 'i1',
        engines: [engine],
        conditions: [{ ...condition, ...since }],
      });
    }
    expect(warned.map((line) => /\.status\S*(?=,)/.exec(line)?.[0]).sort()).toEqual([
      '.status.conditions[].certainty',
      '.status.engines[].speed',
      '.status.fans',
      '.status.temperature',
    ]);
  });

  it('is refused what it wants of a spec and they do not have', async () => {
    const metadata = { name: 'wanted', namespace: kube.namespace };
    const object = { metadata, spec: { drain: true, gently: true } } as Applied<GpuAgent>;
    await expect(client.apply(GPUAGENT_RESOURCE, object)).rejects.toThrow('.spec.gently: field not declared');
    expect(await client.find(GPUAGENT_RESOURCE, metadata)).toBeUndefined();
  });
});

describe('the words of a refusal', () => {
  const fields = (message: string) => undeclaredFields(new KubeError(message, { code: 'internal' }));
  const refused =
    'PATCH /apis/semblance.dev/v1alpha1: failed to create typed patch object (a/x; b/v1, Kind=C): ';

  it.each([
    ['.status.a: field not declared in schema', ['.status.a']],
    [
      'errors:\n  .status.a: field not declared in schema\n  .status.b.c: field not declared in schema',
      ['.status.a', '.status.b.c'],
    ],
    ['.status.list[name="b.c[0]: \\"d"].e: field not declared in schema', ['.status.list[].e']],
    ['.status.list[name="a",kind="b"].f[3].g: field not declared in schema', ['.status.list[].f[].g']],
    ['.status.a: expected string, got 3', []],
  ])('%s', (words, expected) => {
    expect(fields(refused + words)).toEqual(expected);
  });

  it('leave everything else as it is', () => {
    const value = { a: [{ b: 1, c: [{ d: 1, e: 2 }] }, { b: 2 }], f: { g: null } };
    expect(without(value, '.a[].c[].d')).toEqual({ a: [{ b: 1, c: [{ e: 2 }] }, { b: 2 }], f: { g: null } });
    expect(without(value, '.f.g.h')).toEqual(value);
    expect(without(value, '.a.b')).toEqual(value);
  });
});
