import { status } from '@grpc/grpc-js';
import { call, createClient } from '@semblance/common/grpc/client';
import { CODE_KEY } from '@semblance/common/grpc/status';
import { EVENT_RESOURCE, LEASE_RESOURCE } from '@semblance/common/kube/index';
import { silentLogger } from '@semblance/common/logging';
import { GPUAGENT_RESOURCE } from '@semblance/crds/gen/gpuagents';
import { LIVESESSION_RESOURCE, type LiveSession } from '@semblance/crds/gen/livesessions';
import { EndReason, SessionState } from '@semblance/proto/semblance/live/v1/live';
import { AllocationServiceClient } from '@semblance/proto/semblance/operator/v1/operator';
import { type Allocations, allocationOf, createAllocations } from '@semblance/testkit/operator/allocate';
import { createHarness, type Harness } from '@semblance/testkit/operator/harness';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ADDRESS_ANNOTATION, ELECTION_LEASE } from '../app.ts';
import { createLiveLink } from './live-link.ts';

let harness: Harness;
let allocations: Allocations;

beforeEach(async () => {
  harness = await createHarness();
  allocations = createAllocations(harness);
});

afterEach(async () => {
  allocations.close();
  await harness.close();
});

const script = () => {};
const leads = async () => {
  const operator = await harness.operator();
  await expect.poll(allocations.address, { timeout: 20_000 }).toBe(operator.address);
  return operator;
};
const until = async (name: string, condition: (session: LiveSession) => boolean): Promise<LiveSession> => {
  let last: LiveSession | undefined;
  const is = async () => {
    last = await allocations.session(name);
    return last !== undefined && condition(last);
  };
  await expect.poll(is, { timeout: 40_000 }).toBe(true);
  return last as LiveSession;
};
const phase = (wanted: string) => (session: LiveSession) =>
  session.status?.phase === wanted && session.status.conditions !== undefined;
const gone = (name: string) =>
  expect.poll(() => allocations.session(name), { timeout: 40_000 }).toBeUndefined();
const ref = (name: string) => ({ namespace: harness.namespace, name });
const ready = ({ status: of }: LiveSession) => of?.conditions?.find(({ type }) => type === 'Ready');

describe('a LiveSession', () => {
  it('follows its session from slot to end, with events, and shows how it stood', async () => {
    const agent = await harness.agent({ name: 'one', script, live: { voice: 2 } });
    await leads();
    await allocations.allocate(allocationOf('followed'));
    agent.live.change('followed', { state: SessionState.SESSION_STATE_CONNECTED });
    const connected = await until('followed', phase('Connected'));
    expect(ready(connected)).toMatchObject({ status: 'True', reason: 'Connected', observedGeneration: 1 });
    agent.live.change('followed', {
      state: SessionState.SESSION_STATE_STREAMING,
      streamedMs: 1_980n,
      received: 100n,
      converted: 99n,
      dropped: 1n,
    });
    const streaming = await until('followed', phase('Streaming'));
    expect(streaming.status).toMatchObject({ streamedSeconds: 2, received: 100, converted: 99, dropped: 1 });
    // Figures change often but are not written often, and a status without news is not written at all.
    const { resourceVersion } = streaming.metadata;
    for (let i = 0; i < 20; i++) {
      agent.live.change('followed', { streamedMs: 2_000n + BigInt(i) * 1_000n });
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect((await allocations.session('followed'))?.metadata.resourceVersion).toBe(resourceVersion);
    agent.live.change('followed', { streamedMs: 30_000n });
    agent.live.end('followed', EndReason.END_REASON_SESSION_LIMIT_REACHED);
    const ended = await until('followed', phase('Ended'));
    expect(ended.status).toMatchObject({ streamedSeconds: 30, reason: 'session_limit_reached' });
    expect(ready(ended)).toMatchObject({ status: 'False', reason: 'SessionLimitReached' });
    const events = async () =>
      (await harness.client.list(EVENT_RESOURCE, { namespace: harness.namespace })).items
        .filter(({ regarding }) => regarding.name === 'followed')
        .map(({ type, reason, note }) => `${type} ${reason}: ${note}`);
    await expect
      .poll(events)
      .toEqual([
        'Normal Bound: Bound to a slot of one.',
        'Normal SessionLimitReached: The seconds that were granted are used up. 30 s were streamed.',
      ]);
  });

  it('says when nothing is heard of its agent, and that its agent was drained', async () => {
    const agents = await Promise.all(
      ['one', 'two'].map((name) => harness.agent({ name, script, live: { voice: 1 } })),
    );
    await leads();
    const placed = new Map<string, string>();
    for (const name of ['silent', 'drained'])
      placed.set((await allocations.allocate(allocationOf(name))).agent, name);
    for (const [i, agent] of agents.entries()) {
      const name = placed.get(i === 0 ? 'one' : 'two') ?? '';
      agent.live.change(name, { state: SessionState.SESSION_STATE_STREAMING, streamedMs: 1_000n });
      await until(name, phase('Streaming'));
      if (name === 'silent') await agent.kill();
      else
        agent.live.change(name, {
          state: SessionState.SESSION_STATE_ENDED,
          reason: EndReason.END_REASON_CANCELLED,
          goingAway: true,
        });
    }
    const drained = await until('drained', phase('Ended'));
    expect(ready(drained)).toMatchObject({ status: 'False', reason: 'AgentDrained' });
    expect(drained.status?.reason).toBe('cancelled');
    const silent = await until('silent', (session) => ready(session)?.status === 'Unknown');
    expect(ready(silent)?.reason).toBe('AgentUnreachable');
    expect(silent.status?.phase).toBe('Streaming');
  });

  it('that is deleted ends at its agent, and frees the slot for who waits', async () => {
    const agent = await harness.agent({ name: 'one', script, live: { voice: 1 } });
    await leads();
    await allocations.allocate(allocationOf('deleted'));
    const next = allocations.allocate(allocationOf('next'));
    await harness.client.delete(LIVESESSION_RESOURCE, ref('deleted'));
    expect((await next).agent).toBe('one');
    expect(agent.live.ends).toEqual([{ session: 'deleted', reason: EndReason.END_REASON_CANCELLED }]);
    expect([...agent.live.held.keys()]).toEqual(['next']);
  });

  it('goes when its time after the end is over', async () => {
    const agent = await harness.agent({ name: 'one', script, live: { voice: 2 } });
    await leads();
    for (const name of ['short', 'long']) await allocations.allocate(allocationOf(name));
    await harness.client.mergePatch(LIVESESSION_RESOURCE, ref('short'), {
      spec: { ttlSecondsAfterFinished: 1 },
    });
    for (const name of ['short', 'long']) agent.live.end(name);
    await gone('short');
    expect((await allocations.session('long'))?.status?.phase).toBe('Ended');
  });

  it('made by hand ends at once, takes no slot and is not allocated', async () => {
    const agent = await harness.agent({ name: 'one', script, live: { voice: 1 } });
    await leads();
    const spec = { capability: 'voice', agent: 'one', maxDurationSeconds: 60 } as const;
    const { incarnation } = agent;
    await harness.client.create(LIVESESSION_RESOURCE, {
      metadata: ref('by-hand'),
      spec: { ...spec, incarnation },
    });
    const ended = await until('by-hand', phase('Ended'));
    expect(ready(ended)).toMatchObject({
      reason: 'NotAllocated',
      message: 'It was not made by the operator and holds no slot. Sessions are opened over the API.',
    });
    await expect(allocations.allocate(allocationOf('by-hand'))).rejects.toMatchObject({
      code: status.FAILED_PRECONDITION,
    });
    expect(agent.live.claims).toEqual([]);
    await allocations.allocate(allocationOf('real'));
  });

  it('ends with the process of its agent', async () => {
    const first = await harness.agent({ name: 'one', script, live: { voice: 1 } });
    await leads();
    await allocations.allocate(allocationOf('restarted'));
    await first.kill();
    const second = await harness.agent({ name: 'one', script, live: { voice: 1 } });
    const lost = await until('restarted', phase('Ended'));
    expect(lost.status?.reason).toBe('render_failed');
    expect(ready(lost)).toMatchObject({ status: 'False', reason: 'AgentLost' });
    expect((await allocations.allocate(allocationOf('again'))).incarnation).toBe(second.incarnation);
  });

  it('ends when the Lease of its agent lapses, and not before', async () => {
    const victim = await harness.agent({ name: 'one', script, live: { voice: 1 }, leaseSeconds: 10 });
    await leads();
    await allocations.allocate(allocationOf('silent'));
    await victim.kill();
    await harness.agentUntil(
      'one',
      ({ status: of }) => of?.conditions?.find(({ type }) => type === 'Ready')?.reason === 'Unreachable',
    );
    expect((await allocations.session('silent'))?.status?.phase).toBe('Bound');
    const lost = await until('silent', phase('Ended'));
    expect(ready(lost)?.reason).toBe('AgentLost');
  });

  it('ends with an agent whose GpuAgent is gone too', async () => {
    const victim = await harness.agent({ name: 'one', script, live: { voice: 1 }, leaseSeconds: 8 });
    await leads();
    await allocations.allocate(allocationOf('nowhere'));
    await victim.kill();
    await harness.client.delete(GPUAGENT_RESOURCE, ref('one'));
    const lost = await until('nowhere', phase('Ended'));
    expect(ready(lost)?.reason).toBe('AgentLost');
  });

  it('goes on through broken streams, and is told of what ended meanwhile', async () => {
    const agent = await harness.agent({ name: 'one', script, live: { voice: 3 } });
    await leads();
    for (const name of ['kept', 'closed', 'forgotten']) await allocations.allocate(allocationOf(name));
    agent.live.dropStreams();
    agent.live.end('closed');
    agent.live.end('forgotten');
    agent.live.forget('forgotten');
    await until('closed', ({ status: of }) => of?.phase === 'Ended' && of.reason === undefined);
    const forgotten = await until('forgotten', phase('Ended'));
    expect(ready(forgotten)?.reason).toBe('NoStream');
    expect(agent.live.held.has('kept')).toBe(true);
    agent.live.change('kept', { state: SessionState.SESSION_STATE_CONNECTED });
    await until('kept', phase('Connected'));
    expect(agent.live.ends).toEqual([]);
  });

  it('is counted in its agent, by capability', async () => {
    const agent = await harness.agent({ name: 'one', script, live: { voice: 4, 'full-live-swap': 1 } });
    await leads();
    const names = (wanted: string) => harness.agentUntil('one', ({ status: of }) => of?.liveNames === wanted);
    await names('voice 0/4, full-live-swap 0/1');
    for (const name of ['v-1', 'v-2']) await allocations.allocate(allocationOf(name));
    await allocations.allocate(allocationOf('l-1', { capability: 'full-live-swap' }));
    const shown = await names('voice 2/4, full-live-swap 1/1');
    expect(shown.status).toMatchObject({ liveUsed: 3, engineNames: 'scripted' });
    agent.live.end('v-1');
    await agent.setLive([{ name: 'voice', slots: 4, warming: true }]);
    await names('voice 1/4 warming');
    await harness.client.mergePatch(GPUAGENT_RESOURCE, ref('one'), { spec: { drain: true } });
    await harness.agentUntil(
      'one',
      ({ status: of }) => of?.conditions?.find(({ type }) => type === 'Ready')?.reason === 'Draining',
    );
    await expect(allocations.allocate(allocationOf('drained'))).rejects.toMatchObject({
      code: status.UNAVAILABLE,
    });
    // Running sessions go on.
    expect([...agent.live.held.keys()]).toEqual(['v-2', 'l-1']);
  });
});

describe('an operator that takes over', () => {
  it('answers for what the former one allocated, and ends what it left half done', async () => {
    const agent = await harness.agent({ name: 'one', script, live: { voice: 3 } });
    const first = await leads();
    const request = allocationOf('carried');
    const answer = await allocations.allocate(request);
    await allocations.allocate(allocationOf('ended'));
    const second = await harness.operator();
    await first.close();
    await expect.poll(allocations.address, { timeout: 40_000 }).toBe(second.address);
    expect(await allocations.allocate(request)).toEqual(answer);
    await second.close();
    // Nobody leads, and the Lease names nobody.
    const lease = await harness.client.get(LEASE_RESOURCE, ref(ELECTION_LEASE));
    expect(lease.spec?.holderIdentity).toBe('');
    expect(lease.metadata.annotations?.[ADDRESS_ANNOTATION]).toBeUndefined();

    // This is the state after an operator was killed between claim and LiveSession, and after unseen deletions.
    const link = createLiveLink({
      agent: 'one',
      incarnation: agent.incarnation,
      address: agent.address,
      logger: silentLogger(),
      onSnapshot() {},
      onReport() {},
      onDisconnected() {},
    });
    const { account: _, ...asked } = allocationOf('half-done');
    const never = new AbortController();
    const claim = { ...asked, incarnation: agent.incarnation, inputs: {} };
    expect(await link.claim(claim, never.signal)).toBeUndefined();
    await link.run(AbortSignal.abort());
    agent.live.end('ended', EndReason.END_REASON_TIMED_OUT);
    await harness.client.delete(LIVESESSION_RESOURCE, ref('carried'));
    expect([...agent.live.held.keys()]).toEqual(['carried', 'half-done']);

    const third = await harness.operator();
    await expect.poll(allocations.address, { timeout: 40_000 }).toBe(third.address);
    await expect.poll(() => agent.live.held.size, { timeout: 40_000 }).toBe(0);
    expect((await until('ended', phase('Ended'))).status?.reason).toBe('timed_out');
    // The slot was given back. At this agent the session needs another name to begin anew.
    await expect(allocations.allocate(allocationOf('ended'))).rejects.toMatchObject({
      code: status.FAILED_PRECONDITION,
    });
    await allocations.allocate(allocationOf('fresh'));
  });

  it('says that it does not lead when it does not', async () => {
    const first = await leads();
    const second = await harness.operator();
    const client = createClient(AllocationServiceClient, second.address);
    const failure = await call(client.allocate.bind(client), allocationOf('x'), { timeoutMs: 10_000 }).catch(
      (error) => error,
    );
    client.close();
    expect(failure).toMatchObject({ code: status.UNAVAILABLE });
    expect(failure.metadata.get(CODE_KEY)).toEqual([]);
    expect(first.leading).toBe(true);
  });
});
