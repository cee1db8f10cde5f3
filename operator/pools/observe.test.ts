import type { Reflector } from '@semblance/common/kube/index';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import { poolOf } from '@semblance/testkit/operator/pool-snapshots';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { AgentView } from '../agents/view.ts';
import { createObserver, DRAIN_REASON, DRAIN_SINCE, type Observer } from './observe.ts';
import type { Pod } from './pod.ts';
import { podOf, revisionOf } from './template.ts';

const at = (seconds: number) => new Date(Date.parse('2026-01-01T00:00:00Z') + seconds * 1000).toISOString();
const later = (seconds: number) => vi.setSystemTime(at(seconds));

let agent: GpuAgent | undefined;
let view: AgentView;
let used: number;
let observer: Observer;

beforeEach(() => {
  vi.useFakeTimers({ now: Date.parse(at(0)) });
  agent = {
    apiVersion: 'semblance.dev/v1alpha1',
    kind: 'GpuAgent',
    metadata: { name: 'gpu-a' },
    spec: {},
    status: { incarnation: 'i' },
  };
  view = {
    name: 'gpu-a',
    incarnation: 'i',
    slots: 2,
    costs: new Map(),
    live: new Map(),
    address: '',
    readiness: { ready: true, reason: 'Ready', message: '' },
  };
  used = 0;
  observer = createObserver({
    agents: { get: () => agent } as unknown as Reflector<GpuAgent>,
    fleet: { viewOf: () => view },
    scheduler: { usedOn: () => used },
    live: { usedOn: () => new Map() },
  });
  return () => vi.useRealTimers();
});

function pod(conditions: object[] = [], status: object = {}): Pod {
  const metadata = { name: 'gpu-a', uid: 'u', creationTimestamp: at(0) };
  return { metadata, status: { phase: 'Running', conditions: conditions as never, ...status } };
}
const onNode = { type: 'PodScheduled', status: 'True', lastTransitionTime: at(10) };
const isReady = { type: 'Ready', status: 'True', lastTransitionTime: at(20) };
const unready = { type: 'Ready', status: 'False', lastTransitionTime: at(90) };

describe('idleness', () => {
  const idleSince = () => observer.podOf(pod([onNode, isReady])).agent?.idleSince;

  it('counts from when the agent is first seen ready, warm and without work, and anew after any work', () => {
    view = { ...view, live: new Map([['voice', { slots: 0, warming: true }]]) };
    later(30);
    expect(idleSince()).toBeUndefined();
    view = { ...view, live: new Map([['voice', { slots: 4, warming: false }]]) };
    later(60);
    expect(idleSince()).toBe(Date.parse(at(60)));
    later(70);
    expect(idleSince()).toBe(Date.parse(at(60)));
    used = 1;
    expect(idleSince()).toBeUndefined();
    used = 0;
    later(80);
    expect(idleSince()).toBe(Date.parse(at(80)));
    // The work began and ended between two looks.
    observer.worked('gpu-a');
    later(90);
    expect(idleSince()).toBe(Date.parse(at(90)));
  });

  it('never counts while the Pod is not ready', () => {
    expect(observer.podOf(pod([onNode, unready])).agent).toMatchObject({
      ready: false,
      idleSince: undefined,
    });
  });
});

describe('not being ready', () => {
  const of = (conditions: object[], status?: object) => observer.podOf(pod(conditions, status));

  it('counts from the node, then from when it was last found so, and not at all for want of a node', () => {
    agent = undefined;
    expect(of([]).unreadySince).toBeUndefined();
    expect(of([onNode]).unreadySince).toBe(Date.parse(at(10)));
    expect(of([onNode, unready]).unreadySince).toBe(Date.parse(at(90)));
  });

  it('is no fault of an agent that is kept from work, and no reason to end one that is out of reach', () => {
    later(3_600);
    for (const reason of ['Draining', 'Unreachable'] as const) {
      view = { ...view, readiness: { ready: false, reason, message: 'm' } };
      expect(of([onNode, isReady]).unreadySince, reason).toBeUndefined();
    }
    expect(of([onNode, isReady]).obstacle).toEqual({ reason: 'Unreachable', message: 'm' });
    view = { ...view, readiness: { ready: false, reason: 'HeartbeatLost', message: 'm' } };
    expect(of([onNode, isReady]).unreadySince).toBe(Date.parse(at(10)));
  });

  it('is explained by the template of an agent that runs under another name', () => {
    agent = undefined;
    later(50);
    expect(of([onNode, isReady]).obstacle).toBeUndefined();
    later(51);
    expect(of([onNode, isReady])).toMatchObject({
      unreadySince: Date.parse(at(10)),
      obstacle: { reason: 'AgentNotRegistered', message: expect.stringContaining('SEMBLANCE_AGENT_NAME') },
    });
    expect(of([onNode, unready]).obstacle).toBeUndefined();
  });

  it('is explained by what the node or the kubelet found', () => {
    const waiting = (reason: string, message?: string) => ({
      containerStatuses: [{ name: 'agent', state: { waiting: { reason, ...(message && { message }) } } }],
    });
    expect(of([onNode], waiting('ContainerCreating')).obstacle).toBeUndefined();
    expect(of([onNode], waiting('CrashLoopBackOff')).obstacle).toEqual({
      reason: 'CrashLoopBackOff',
      message: 'container agent: CrashLoopBackOff',
    });
    const full = { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: '0/3 nodes' };
    expect(of([full]).obstacle).toEqual({ reason: 'Unschedulable', message: '0/3 nodes' });
    expect(of([onNode], { phase: 'Failed', reason: 'Evicted', message: 'low on memory' }).end).toEqual({
      reason: 'Evicted',
      message: 'low on memory',
    });
  });
});

it('a drain is the operator’s only with its annotations', () => {
  const drained = () => observer.podOf(pod([onNode, isReady])).agent;
  view = { ...view, readiness: { ready: false, reason: 'Draining', message: '' } };
  if (agent) agent = { ...agent, spec: { drain: true } };
  expect(drained()).toMatchObject({ outOfService: true, drained: undefined });
  const annotations = { [DRAIN_SINCE]: at(5), [DRAIN_REASON]: 'ScaleDown' };
  if (agent) agent = { ...agent, metadata: { ...agent.metadata, annotations } };
  expect(drained()).toMatchObject({
    outOfService: false,
    drained: { since: Date.parse(at(5)), why: 'ScaleDown' },
  });
});

describe('the Pod of an agent', () => {
  const env = [
    { name: 'SEMBLANCE_AGENT_ADVERTISE', value: '$(POD_IP):7000' },
    { name: 'SEMBLANCE_AGENT_SLOTS', value: '2' },
  ];
  const spec = {
    terminationGracePeriodSeconds: 620,
    containers: [
      { name: 'sidecar', image: 's' },
      { name: 'agent', image: 'a', env },
    ],
  };
  const pool = poolOf({ template: { metadata: { labels: { team: 'x' } }, spec } });

  it('is told who it is by what the template leaves out, before what refers to it', () => {
    const { containers } = podOf(pool, 'gpu-bcdfg').spec as typeof spec;
    expect(containers[0]).toEqual({ name: 'sidecar', image: 's' });
    const names = containers[1]?.env?.map(({ name }) => name) ?? [];
    expect(names.slice(-2)).toEqual(env.map(({ name }) => name));
    expect(names[0]).toBe('POD_IP');
    expect(new Set(names).size).toBe(names.length);
    expect(containers[1]?.env).toContainEqual({ name: 'SEMBLANCE_AGENT_DRAIN_SECONDS', value: '600' });
  });

  it('is of a revision that does not depend on the order of what is said', () => {
    const turned = poolOf({
      template: { spec: { ...spec, containers: [...spec.containers] }, metadata: { labels: { team: 'x' } } },
    });
    expect(revisionOf(turned)).toBe(revisionOf(pool));
    expect(revisionOf(poolOf({ template: { spec } }))).not.toBe(revisionOf(pool));
    expect(podOf(pool, 'n').metadata.labels).toMatchObject({
      team: 'x',
      'semblance.dev/pool': 'gpu',
      'semblance.dev/revision': revisionOf(pool),
    });
  });
});

describe('an agent that fetches models', () => {
  const init = (...states: object[]) => ({
    initContainerStatuses: states.map((state, index) => ({ name: `models-${index + 1}`, state })),
  });
  const RUNNING = { running: { startedAt: at(10) } };
  const DONE = { terminated: { exitCode: 0, finishedAt: at(900) } };

  it('has its time to start from when they are there', () => {
    agent = undefined;
    later(2_000);
    const fetching = observer.podOf(pod([onNode], init(DONE, RUNNING)));
    expect(fetching).toMatchObject({ fetching: 2, unreadySince: undefined });
    const done = observer.podOf(pod([onNode], init(DONE, DONE)));
    expect(done).toMatchObject({ fetching: undefined, unreadySince: Date.parse(at(900)) });
  });

  it('that cannot get them says why', () => {
    agent = undefined;
    const waiting = { waiting: { reason: 'CrashLoopBackOff', message: 'back-off 10s restarting' } };
    const status = { name: 'models-1', state: waiting };
    const lastState = { terminated: { exitCode: 1, message: 'fetching\nxseg_1 (1 of 1): answers 404\n' } };
    expect(
      observer.podOf(pod([onNode], { initContainerStatuses: [{ ...status, lastState }] })),
    ).toMatchObject({
      obstacle: {
        reason: 'CrashLoopBackOff',
        message: 'container models-1: back-off 10s restarting; it ended with: xseg_1 (1 of 1): answers 404',
      },
    });
  });
});
