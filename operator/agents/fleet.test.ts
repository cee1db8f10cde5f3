import { silentLogger } from '@semblance/common/logging';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { Disruption } from './disruption.ts';
import { createFleet } from './fleet.ts';
import type { LeaseState } from './view.ts';

const TICK_MS = 250;
const HOUR_MS = 3_600_000;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'setTimeout', 'clearTimeout', 'performance'] });
});

afterEach(() => {
  vi.useRealTimers();
});

/** Creates a fleet of unconnected agents. They appear after the first look, without an event. */
function world(names: readonly string[]) {
  /** Number of reads of an agent's status. */
  const reads = { count: 0 };
  const agents = new Map<string, GpuAgent>();
  const set = (name: string, slots = 2) => {
    const status = { incarnation: `${name}-1`, address: '127.0.0.1:1', slots };
    agents.set(name, {
      apiVersion: 'semblance.dev/v1alpha1',
      kind: 'GpuAgent',
      spec: {},
      metadata: { name, uid: `uid of ${name}` },
      get status() {
        reads.count++;
        return status;
      },
    });
  };
  const leases = new Map<string, LeaseState>();
  const disruptions = new Map<string, Disruption>();
  const foreign = new Map<string, string>();
  const changed: string[] = [];
  const fleet = createFleet({
    agents: { get: (name) => agents.get(name), list: () => [...agents.values()] },
    leases: { stateOf: (name) => leases.get(name) ?? 'held' },
    // Returns a new object each time, as the real watch does.
    disruptions: {
      of({ metadata: { name = '' } }) {
        const found = disruptions.get(name);
        return found && { ...found };
      },
      endOf: () => undefined,
    },
    foreignAddress: ({ metadata: { name = '' } }) => foreign.get(name),
    logger: silentLogger(),
    events: { onChanged: (name) => changed.push(name), onSnapshot() {}, onReport() {} },
  });
  const ending = new AbortController();
  onTestFinished(() => ending.abort());
  void fleet.run(ending.signal);
  for (const name of names) set(name);
  const tick = (times = 1) => {
    vi.advanceTimersByTime(times * TICK_MS);
    return changed.splice(0);
  };
  return { fleet, agents, set, leases, disruptions, foreign, reads, tick };
}

describe('the fleet', () => {
  it('tells of each agent once, and again when it, its Lease, its Pod or its node has changed', () => {
    const { fleet, set, agents, leases, disruptions, tick } = world(['a', 'b']);
    expect(tick()).toEqual(['a', 'b']);
    expect(tick(10)).toEqual([]);
    set('a', 3);
    expect(tick()).toEqual(['a']);
    // The resource is replaced, but nothing that matters has changed.
    set('a', 3);
    expect(tick()).toEqual([]);
    leases.set('b', 'late');
    expect([tick(), fleet.view('b')?.readiness.reason]).toEqual([['b'], 'HeartbeatLost']);
    leases.set('b', 'held');
    expect(tick()).toEqual(['b']);
    disruptions.set('b', { reason: 'NodeCordoned', message: 'Its node n is cordoned.' });
    expect([tick(), tick()]).toEqual([['b'], []]);
    agents.delete('b');
    fleet.touch('b');
    expect([tick(), fleet.view('b')]).toEqual([['b'], undefined]);
  });

  it('calls no agent at an address that is not its own, and calls it once it is', () => {
    const { fleet, foreign, tick } = world(['a']);
    foreign.set('a', 'it states the address 10.9.9.9:1, and its Pod a has 10.0.0.1');
    fleet.touch('a');
    expect(fleet.linkTo('a', 'a-1')).toBeUndefined();
    expect(fleet.view('a')).toMatchObject({
      address: '',
      readiness: { ready: false, reason: 'Unreachable', message: expect.stringContaining('10.9.9.9:1') },
    });
    tick();
    foreign.delete('a');
    expect(tick()).toEqual(['a']);
    expect(fleet.linkTo('a', 'a-1')).toMatchObject({ address: '127.0.0.1:1' });
    // It moves to an address that is not its own.
    foreign.set('a', 'it states the address 10.9.9.9:1, and its Pod a has 10.0.0.1');
    fleet.touch('a');
    expect(fleet.linkTo('a', 'a-1')).toBeUndefined();
  });

  it('makes nothing anew of an agent of which nothing has changed', () => {
    const { fleet, reads, set, tick } = world(Array.from({ length: 50 }, (_, i) => `agent-${i}`));
    tick();
    const views = fleet.views();
    const before = reads.count;
    tick(8);
    const perLook = (reads.count - before) / (8 * 50);
    set('agent-7', 5);
    tick();
    expect(
      fleet
        .views()
        .map((view, i) => view === views[i])
        .filter((same) => !same),
    ).toEqual([false]);
    expect(fleet.view('agent-7')?.slots).toBe(5);
    // The one read is of the incarnation, to ask for the Lease.
    expect(perLook).toBe(1);
  });

  it('forgets that an agent is left alone when the agent is gone', () => {
    const { fleet, agents, set } = world(['a']);
    fleet.pause('a', HOUR_MS);
    expect(fleet.isPaused('a')).toBe(true);
    agents.delete('a');
    fleet.touch('a');
    set('a');
    expect(fleet.isPaused('a')).toBe(false);
    agents.delete('a');
    fleet.pause('a', HOUR_MS);
    expect(fleet.isPaused('a')).toBe(false);
  });
});
