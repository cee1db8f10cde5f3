import type { Lease } from '@semblance/common/kube/index';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createLeaseTracker } from './lease-tracker.ts';

afterEach(() => void vi.restoreAllMocks());

/** Creates a tracker with a watch of Leases and a clock that the test controls. */
function world() {
  const leases = new Map<string, Lease>();
  const watch = { healthySince: 0 as number | undefined, lastActivity: 0 };
  let now = 0;
  let stood = 0;
  let version = 100;
  vi.spyOn(performance, 'now').mockImplementation(() => now);
  const tracker = createLeaseTracker({
    watch,
    find: (name) => leases.get(name),
    lived: () => now - stood,
  });
  const renew = (name: string, holderIdentity: string, leaseDurationSeconds = 8) => {
    const former = leases.get(name);
    const resourceVersion = String(++version);
    const renewTime = `t${version}`;
    const lease = {
      metadata: { name, resourceVersion },
      spec: { holderIdentity, leaseDurationSeconds, renewTime },
    };
    leases.set(name, lease);
    if (former) tracker.handlers.onUpdate?.(lease, former);
    else tracker.handlers.onAdd?.(lease);
  };
  return {
    watch,
    tracker,
    renew,
    state: (name = 'a', incarnation = 'a1') => tracker.stateOf(name, incarnation),
    /** Lets the operator stand still, so that it reads nothing meanwhile. */
    stand(ms: number) {
      now += ms;
      stood += ms;
    },
    /** Lets time pass. The operator's own Lease is renewed every two seconds unless the API is down. */
    pass(ms: number, { api = true, renewing = '' } = {}) {
      for (const end = now + ms; now < end; ) {
        now = Math.min(end, now + 500);
        if (api && now % 2_000 === 0) {
          renew('semblance-operator', 'op');
          if (renewing) renew(renewing, `${renewing}1`);
        }
      }
    },
  };
}

describe('an agent is judged by its Lease', () => {
  it('held while it renews, late when it does not, lost after the duration and a margin', () => {
    const { renew, pass, state } = world();
    renew('a', 'a1');
    pass(20_000, { renewing: 'a' });
    expect(state()).toBe('held');
    pass(5_500);
    expect(state()).toBe('late');
    pass(4_000);
    expect(state()).toBe('late');
    pass(500);
    expect(state()).toBe('lost');
  });

  it('late the later the longer its Lease lasts, and so the less often it is renewed', () => {
    const { renew, pass, state } = world();
    renew('a', 'a1', 40);
    pass(25_000);
    expect(state()).toBe('held');
    pass(500);
    expect(state()).toBe('late');
    pass(16_500);
    expect(state()).toBe('lost');
  });

  it('lost at once when the Lease was released', () => {
    const { renew, pass, state } = world();
    renew('a', 'a1');
    pass(2_000);
    renew('a', '', 1);
    expect(state()).toBe('lost');
  });

  it('never lost by an outage of the API, however long, nor right after it', () => {
    const { renew, pass, state, watch } = world();
    renew('a', 'a1');
    pass(4_000, { renewing: 'a' });
    watch.healthySince = undefined;
    pass(60_000, { api: false });
    expect(state()).toBe('late');
    watch.healthySince = 64_000;
    pass(9_000);
    expect(state()).toBe('late');
    pass(3_000);
    expect(state()).toBe('lost');
  });

  it('never lost by a watch that says it is well and delivers nothing', () => {
    const { renew, pass, state } = world();
    renew('a', 'a1');
    pass(4_000, { renewing: 'a' });
    pass(60_000, { api: false });
    expect(state()).toBe('late');
    // Events come again. Silence counts only from here on.
    pass(8_000);
    expect(state()).toBe('late');
    pass(4_000);
    expect(state()).toBe('lost');
  });

  it('neither late nor lost for the time in which the operator itself stood still', () => {
    const { renew, pass, stand, state } = world();
    renew('a', 'a1');
    pass(20_000, { renewing: 'a' });
    // Too short for the watch to count as silent.
    stand(5_500);
    expect(state()).toBe('held');
    pass(3_500);
    expect(state()).toBe('held');
    stand(1_000);
    expect(state()).toBe('held');
    pass(2_000);
    expect(state()).toBe('late');
    pass(3_500);
    expect(state()).toBe('late');
    pass(1_000);
    expect(state()).toBe('lost');
  });

  it('lost when another process renews under its name, by its own last renewal', () => {
    const { renew, pass, state } = world();
    renew('a', 'a0');
    pass(4_000, { renewing: 'a' });
    expect(state('a', 'a0')).toBe('held');
    pass(6_000, { renewing: 'a' });
    expect(state('a', 'a0')).toBe('lost');
    expect(state('a', 'a1')).toBe('held');
  });

  it('without a Lease, given the time that one would have', () => {
    const { pass, state } = world();
    pass(2_000);
    expect(state('ghost', 'g1')).toBe('held');
    pass(9_000);
    expect(state('ghost', 'g1')).toBe('late');
    pass(1_000);
    expect(state('ghost', 'g1')).toBe('lost');
  });
});
