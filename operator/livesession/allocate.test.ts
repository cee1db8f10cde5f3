import { status } from '@grpc/grpc-js';
import { CODE_KEY } from '@semblance/common/grpc/status';
import { createRegistry } from '@semblance/common/health';
import { GPUAGENT_RESOURCE, type GpuAgent } from '@semblance/crds/gen/gpuagents';
import type { LiveSession } from '@semblance/crds/gen/livesessions';
import { LIVESESSION_RESOURCE } from '@semblance/crds/gen/livesessions';
import { EndReason } from '@semblance/proto/semblance/live/v1/live';
import { type Allocations, allocationOf, createAllocations } from '@semblance/testkit/operator/allocate';
import { doubles, type SlotLedger } from '@semblance/testkit/operator/fake-live';
import { createHarness, type Harness } from '@semblance/testkit/operator/harness';
import type { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { OperatorOptions } from '../app.ts';

let harness: Harness;
let allocations: Allocations;
let registry: Registry;

beforeEach(async () => {
  registry = createRegistry('operator');
  harness = await createHarness();
  allocations = createAllocations(harness);
});

afterEach(async () => {
  allocations.close();
  await harness.close();
});

const script = () => {};
const reasonIs = (reason: string) => (agent: GpuAgent) =>
  agent.status?.conditions?.find(({ type }) => type === 'Ready')?.reason === reason;
const ready = (name: string) => harness.agentUntil(name, reasonIs('Ready'));
const until = async (name: string, condition: (session: LiveSession) => boolean) => {
  const is = async () => {
    const session = await allocations.session(name);
    return session !== undefined && condition(session);
  };
  await expect.poll(is, { timeout: 40_000 }).toBe(true);
};
const leads = async (overrides: Partial<OperatorOptions> = {}) => {
  const operator = await harness.operator({ registry, ...overrides });
  await expect.poll(allocations.address, { timeout: 20_000 }).toBe(operator.address);
  return operator;
};
/** Returns the number of sessions that wait for a slot. */
const waitingIn = async () => {
  const { value } = (await registry.getSingleMetric('semblance_allocations_waiting')?.get())?.values[0] ?? {};
  return value;
};
const codeOf = (error: { metadata?: { get(key: string): unknown[] } }) => error.metadata?.get(CODE_KEY)[0];

describe('an allocation', () => {
  it('binds a session to a slot, with one LiveSession that says so', async () => {
    const agent = await harness.agent({ name: 'one', script, live: { voice: 2 } });
    await leads();
    const request = allocationOf('s-1', {
      capability: 'voice',
      settings: { voice: '{"id":"v"}' },
      inputs: { face: 'api/acc/face.jpg' },
    });
    const answer = await allocations.allocate(request);
    expect(answer).toEqual({ agent: 'one', incarnation: agent.incarnation, address: agent.address });
    expect(agent.live.claims).toEqual([
      {
        sessionId: 's-1',
        incarnation: agent.incarnation,
        capability: 'voice',
        ticketSha256: Buffer.from(request.ticketSha256),
        settings: { voice: '{"id":"v"}' },
        inputs: {
          face: { url: 'http://objects.test/api/acc/face.jpg?signed', maxBytes: 45n * 1024n * 1024n },
        },
        connectDeadlineSeconds: 60,
        maxDurationSeconds: 600,
        requestId: 'request-s-1',
      },
    ]);
    const session = await allocations.session('s-1');
    expect(session?.spec).toEqual({
      capability: 'voice',
      agent: 'one',
      incarnation: agent.incarnation,
      account: 'acc-1',
      maxDurationSeconds: 600,
      connectDeadlineSeconds: 60,
      ttlSecondsAfterFinished: 600,
    });
    expect(session?.status?.phase).toBe('Bound');
    // Nobody may read what opens the session at the agent.
    expect(JSON.stringify(session)).not.toContain('signed');
  });

  it('is asked for twice, also at once, and has one slot and one answer', async () => {
    const agents = await Promise.all(
      ['a', 'b'].map((name) => harness.agent({ name, script, live: { voice: 4 } })),
    );
    await leads();
    const request = allocationOf('twice');
    const answers = await Promise.all(Array.from({ length: 8 }, () => allocations.allocate(request)));
    answers.push(await allocations.allocate(request));
    expect(new Set(answers.map(({ agent }) => agent)).size).toBe(1);
    expect(agents.flatMap(({ live }) => live.claims)).toHaveLength(1);
    expect(await allocations.list()).toHaveLength(1);
    await expect(allocations.allocate({ ...request, capability: 'full-live-swap' })).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
    });
  });

  it('of a session that has ended is refused for ever', async () => {
    const agent = await harness.agent({ name: 'one', script, live: { voice: 4 } });
    await leads();
    const request = allocationOf('over');
    await allocations.allocate(request);
    agent.live.end('over');
    await until('over', ({ status }) => status?.phase === 'Ended');
    await expect(allocations.allocate(request)).rejects.toMatchObject({ code: status.FAILED_PRECONDITION });
    expect(agent.live.claims).toHaveLength(1);
  });

  const bad: [string, Parameters<typeof allocationOf>[1]][] = [
    ['no name of a resource', { sessionId: 'A b' }],
    ['a capability that is not live', { capability: 'avatar' }],
    ['no seconds', { maxDurationSeconds: 0 }],
    ['more seconds than four hours', { maxDurationSeconds: 14_401 }],
    ['no deadline', { connectDeadlineSeconds: 0 }],
    ['half a ticket', { ticketSha256: Buffer.alloc(16) }],
    ['an input that is no upload', { inputs: { face: 'https://x/y' } }],
    ['an account that is none', { account: 'A/B' }],
  ];
  it('is refused when it is malformed, and asks no agent', async () => {
    const agent = await harness.agent({ name: 'one', script, live: { voice: 4, 'full-live-swap': 1 } });
    await leads();
    for (const [what, more] of bad) {
      await expect(allocations.allocate(allocationOf('bad', more)), what).rejects.toMatchObject({
        code: status.INVALID_ARGUMENT,
      });
    }
    expect(agent.live.claims).toEqual([]);
    await allocations.allocate(allocationOf('good', { capability: 'full-live-swap' }));
  });

  it('goes to the agent with the most free slots, and past one that drains, is not ready or refuses', async () => {
    const [a, b, c] = await Promise.all(
      [2, 3, 4].map((slots, i) => harness.agent({ name: 'abc'.charAt(i), script, live: { voice: slots } })),
    );
    await leads();
    await Promise.all(['a', 'b', 'c'].map(ready));
    const take = async (name: string) => (await allocations.allocate(allocationOf(name))).agent;
    expect(await take('s1')).toBe('c');
    expect(await take('s2')).toBe('b');
    await harness.client.mergePatch(
      GPUAGENT_RESOURCE,
      { namespace: harness.namespace, name: 'c' },
      { spec: { drain: true } },
    );
    await harness.agentUntil('c', reasonIs('Draining'));
    // `b` has as many free slots as `a`, which is the first by name.
    expect(await take('s3')).toBe('a');
    if (b) b.live.refuseWith = status.FAILED_PRECONDITION;
    expect(await take('s4')).toBe('a');
    expect(b?.live.claims.map(({ sessionId }) => sessionId)).toEqual(['s2', 's4']);
    expect(a?.live.held.size).toBe(2);
    expect(c?.live.held.size).toBe(1);
  });

  it('that an agent does not answer goes to another, and the first is made to let go', async () => {
    const silent = await harness.agent({ name: 'a', script, live: { voice: 9 } });
    const other = await harness.agent({ name: 'b', script, live: { voice: 1 } });
    // Longer than a standstill of the machine, which would make the other agent count as silent, too.
    await leads({ claimTimeoutMs: 7_000 });
    await Promise.all(['a', 'b'].map(ready));
    silent.live.silent = true;
    expect((await allocations.allocate(allocationOf('moved'))).agent).toBe('b');
    await expect.poll(() => silent.live.held.size).toBe(0);
    expect(silent.live.ends).toEqual([{ session: 'moved', reason: EndReason.END_REASON_CANCELLED }]);
    expect(other.live.held.has('moved')).toBe(true);
    expect((await allocations.session('moved'))?.spec.agent).toBe('b');
  });

  it('that no agent can do is refused when each has been asked once', async () => {
    const agents = await Promise.all(
      ['a', 'b'].map((name) => harness.agent({ name, script, live: { voice: 1 } })),
    );
    await leads();
    await Promise.all(['a', 'b'].map(ready));
    for (const { live } of agents) live.refuseWith = status.INVALID_ARGUMENT;
    const failure = await allocations.allocate(allocationOf('odd')).catch((error) => error);
    expect(codeOf(failure)).toBe('capacity_unavailable');
    expect(agents.map(({ live }) => live.claims.length)).toEqual([1, 1]);
  });

  it('whose LiveSession cannot be written ends what was claimed', async () => {
    const agent = await harness.agent({ name: 'one', script, live: { voice: 1 } });
    const operator = await leads();
    await ready('one');
    // Another LiveSession of that name was created meanwhile, for another agent.
    let held = Promise.withResolvers<void>();
    const claimed = Promise.withResolvers<void>();
    agent.live.beforeAnswer = () => {
      claimed.resolve();
      return held.promise;
    };
    const asked = allocations.allocate(allocationOf('taken')).catch((error) => error);
    await claimed.promise;
    const spec = { capability: 'voice', agent: 'ghost', incarnation: 'g', maxDurationSeconds: 60 } as const;
    await harness.client.create(LIVESESSION_RESOURCE, {
      metadata: { name: 'taken', namespace: harness.namespace },
      spec,
    });
    held.resolve();
    expect(await asked).toMatchObject({ code: status.FAILED_PRECONDITION });
    await expect.poll(() => agent.live.ends.map(({ session }) => session)).toEqual(['taken']);

    // The caller gave up between claim and create.
    held = Promise.withResolvers<void>();
    const giveUp = new AbortController();
    const second = Promise.withResolvers<void>();
    agent.live.beforeAnswer = () => {
      second.resolve();
      return held.promise;
    };
    const given = allocations.allocate(allocationOf('given-up'), giveUp.signal).catch((error) => error);
    await second.promise;
    giveUp.abort();
    await given;
    held.resolve();
    await expect.poll(() => agent.live.ends.map(({ session }) => session)).toEqual(['taken', 'given-up']);
    expect(await allocations.session('given-up')).toBeUndefined();
    agent.live.beforeAnswer = undefined;
    expect(operator.leading).toBe(true);
    await allocations.allocate(allocationOf('next'));
  });
});

describe('a burst', () => {
  it('waits for slots that free, first come first served, and then is refused', async () => {
    const ledger: SlotLedger = { entries: [] };
    const agent = await harness.agent({
      name: 'one',
      script,
      live: { voice: 3 },
      slotLedger: ledger,
      lax: true,
    });
    await leads();
    await ready('one');
    for (const i of [0, 1, 2]) await allocations.allocate(allocationOf(`first-${i}`));
    const done: string[] = [];
    const later = ['w-0', 'w-1', 'w-2', 'w-3'].map(async (name) => {
      const result = await allocations.allocate(allocationOf(name)).catch((error) => codeOf(error));
      done.push(name);
      return result;
    });
    // All are in the queue, in this order, before a slot frees.
    await expect.poll(() => waitingIn()).toBe(4);
    for (const i of [0, 1, 2]) agent.live.end(`first-${i}`);
    const results = await Promise.all(later);
    expect(done.toSorted()).toEqual(['w-0', 'w-1', 'w-2', 'w-3']);
    expect(results.slice(0, 3)).toMatchObject([{ agent: 'one' }, { agent: 'one' }, { agent: 'one' }]);
    expect(results[3]).toBe('capacity_unavailable');
    expect(agent.live.claims.map(({ sessionId }) => sessionId)).toEqual([
      'first-0',
      'first-1',
      'first-2',
      'w-0',
      'w-1',
      'w-2',
    ]);
    expect(doubles(ledger)).toEqual([]);
    expect(agent.live.most.get('voice')).toBe(3);
  });

  it('is told at once that there is nobody, and that somebody is warming up', async () => {
    const agent = await harness.agent({ name: 'one', script, live: { voice: 1 } });
    await agent.setLive([{ name: 'voice', slots: 0 }]);
    await leads();
    await ready('one');
    const refused = (capability: string) =>
      allocations
        .allocate(allocationOf(`none-${capability}`, { capability }))
        .catch((error) => codeOf(error));
    expect(await refused('full-live-swap')).toBe('capacity_unavailable');
    expect(await refused('voice')).toBe('capacity_unavailable');
    await agent.setLive([{ name: 'voice', slots: 0, warming: true }]);
    await expect.poll(() => refused('voice')).toBe('capacity_warming');
    await agent.setLive([{ name: 'voice', slots: 1 }]);
    await expect.poll(() => refused('voice')).toMatchObject({ agent: 'one' });
    // Warming models are no use to a session that waits for a taken slot, but may be in a minute.
    await agent.setLive([{ name: 'voice', slots: 1, warming: true }]);
    const late = await allocations.allocate(allocationOf('late')).catch((error) => codeOf(error));
    expect(late).toBe('capacity_warming');
  });
});
