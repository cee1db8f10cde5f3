import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { call, createClient } from '@semblance/common/grpc/client';
import { newId } from '@semblance/common/ids';
import { GPUAGENT_RESOURCE } from '@semblance/crds/gen/gpuagents';
import type { LiveEngine } from '@semblance/engine-api/live-engine';
import { ClaimSlotRequest, EndReason, LiveServiceClient } from '@semblance/proto/semblance/live/v1/live';
import { SOUND_INFO, startScriptedLive } from '@semblance/testkit/engine-sidecar/scripted-live';
import { createHarness, type Harness, type TestAgent, until } from '@semblance/testkit/gpu-agent/harness';
import { HANGING_WARM_UP, NO_WARM_UP } from '@semblance/testkit/gpu-agent/test-engine';
import { openRelay } from '@semblance/testkit/live/relay-client';
import { createTestLiveEngine } from '@semblance/testkit/live/test-live-engine';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

let harness: Harness;
const clients: LiveServiceClient[] = [];
beforeAll(async () => {
  harness = await createHarness();
});
afterEach(async () => {
  await harness.closeAgents();
  for (const client of clients.splice(0)) client.close();
});
afterAll(() => harness.close());

/** Opens a session of an agent, with its relay. */
async function session(
  { address, incarnation }: TestAgent,
  capability: string,
  token?: string,
  settings: Record<string, string> = {},
) {
  const client = createClient(LiveServiceClient, address, token);
  clients.push(client);
  const ticket = randomBytes(32);
  const sessionId = newId('ses-');
  const request = ClaimSlotRequest.fromPartial({
    sessionId,
    incarnation,
    capability,
    connectDeadlineSeconds: 60,
    maxDurationSeconds: 600,
    ticketSha256: createHash('sha256').update(ticket).digest(),
    settings,
  });
  await call(client.claimSlot.bind(client), request, { timeoutMs: 30_000 });
  const relay = openRelay(client, { sessionId, incarnation, ticket, requestId: '' });
  await relay.ready.catch((error: unknown) => {
    // The caller finds the agent's reason in the relay.
    if (relay.ended() === undefined) throw error;
  });
  return relay;
}

describe('an agent with live sessions', () => {
  it('announces that it warms up, then its slots, and none when it ends', async () => {
    const { engine } = createTestLiveEngine({ slots: 3 });
    const warm = Promise.withResolvers<void>();
    const state = { slots: 0, warming: true };
    const held: LiveEngine = {
      ...engine,
      get slots() {
        return state.slots;
      },
      get warming() {
        return state.warming;
      },
      warmUp: () => warm.promise,
    };
    const agent = await harness.agent({ liveEngines: [held] });
    const live = async () => (await agent.resource())?.status?.live;
    expect(await live()).toEqual([{ name: 'full-live-swap', slots: 0, warming: true }]);
    Object.assign(state, { slots: 3, warming: false });
    warm.resolve();
    await until(async () => (await live())?.[0]?.slots === 3, 'three slots');
    expect(await live()).toEqual([{ name: 'full-live-swap', slots: 3, warming: false }]);
    await agent.close();
    expect(await live()).toEqual([{ name: 'full-live-swap', slots: 0, warming: false }]);
  });

  it('announces the program of the owner that carries them, while it is there', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'semblance-live-'));
    const socket = join(dir, 'engine.sock');
    const env = { SEMBLANCE_LIVE_VOICE_SLOTS: '2', SEMBLANCE_LIVE_VOICE_SIDECAR: socket };
    const agent = await harness.agent({ env });
    const live = async () => (await agent.resource())?.status?.live;
    expect(await live()).toEqual([{ name: 'voice', slots: 0, warming: true }]);
    const sidecar = await startScriptedLive(socket, { info: { ...SOUND_INFO, slots: 5 } });
    const announced = [{ name: 'voice', slots: 2, warming: false, engine: 'scripted 1' }];
    await until(async () => (await live())?.[0]?.slots === 2, 'two slots');
    expect(await live()).toEqual(announced);
    await sidecar.kill();
    await until(async () => (await live())?.[0]?.slots === 0, 'none');
    expect(await live()).toEqual([{ name: 'voice', slots: 0, warming: true }]);
    await agent.close();
    await rm(dir, { recursive: true });
  });

  it.each([
    [
      'waits with its live engines while those for renders warm up, and says that they will',
      HANGING_WARM_UP,
      0,
    ],
    ['does not wait for one for renders that does not get warm', NO_WARM_UP, 1],
  ])('%s', async (_, source, warmedUp) => {
    const { engine } = createTestLiveEngine({ slots: 0 });
    let asked = 0;
    const warmUp = async () => void asked++;
    const name = `warming-${warmedUp}`;
    const stop = new AbortController();
    const starting = harness.agent({
      engines: [source],
      liveEngines: [{ ...engine, warming: true, warmUp }],
      signal: stop.signal,
      env: { SEMBLANCE_AGENT_NAME: name },
    });
    starting.catch(() => {});
    const ref = { namespace: harness.namespace, name };
    const live = async () => (await harness.kube.find(GPUAGENT_RESOURCE, ref))?.status?.live;
    await until(async () => (await live())?.[0]?.warming === true, 'it says that they warm up');
    await until(() => asked === warmedUp, 'as many were started');
    stop.abort(new Error('the test ends'));
    await expect(starting).rejects.toThrow('the test ends');
    expect(asked).toBe(warmedUp);
  });

  it('carries voice by its settings, asks for the token, and tells its sessions when it ends', async () => {
    const token = 'a-token-of-this-installation';
    const agent = await harness.agent({
      env: { SEMBLANCE_LIVE_VOICE_SLOTS: '2', SEMBLANCE_INTERNAL_TOKEN: token },
    });
    await until(async () => (await agent.resource())?.status?.live?.[0]?.slots === 2, 'two slots of voice');
    await expect(session(agent, 'voice')).rejects.toMatchObject({ code: status.UNAUTHENTICATED });
    const relay = await session(agent, 'voice', token);
    const sound = randomBytes(1_920);
    relay.send(sound);
    expect((await relay.next()).data.equals(sound)).toBe(true);
    const value = await agent.figures();
    expect(value('live_slots', 'capability="voice"')).toBe(2);
    expect(value('live_slots_used', 'capability="voice"')).toBe(1);
    expect(value('live_messages_total', 'what="converted"')).toBe(1);
    await agent.close();
    expect((await relay.over).code).toBe(status.OK);
    expect(relay.ended()).toEqual({
      reason: EndReason.END_REASON_CANCELLED,
      message: 'the agent is ending; open another session',
      goingAway: true,
      rejected: '',
    });
  });

  it('asks its content checks for the prompts of sessions, and counts what they say', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'semblance-live-words-'));
    try {
      const list = join(dir, 'words.txt');
      await writeFile(list, 'admiral\n');
      const { engine, state } = createTestLiveEngine();
      const agent = await harness.agent({
        env: { SEMBLANCE_CONTENT_CHECK: 'word-list', SEMBLANCE_CONTENT_WORD_LIST: list },
        liveEngines: [engine],
      });
      const worn = await session(agent, 'full-live-swap', undefined, { prompt: 'character: astronaut' });
      await worn.close();
      const relay = await session(agent, 'full-live-swap', undefined, { prompt: 'Become the admiral' });
      expect(relay.ended()?.rejected).toBe('The prompt contains words that are not allowed here.');
      expect(state.opened).toBe(1);
      const value = await agent.figures();
      const checked = (result: string) =>
        value('content_checks_total', 'check="word-list"', 'phase="input"', `result="${result}"`);
      expect([checked('allowed'), checked('rejected')]).toEqual([1, 1]);
    } finally {
      await rm(dir, { recursive: true });
    }
  });

  it('ends every session when it loses its Lease, and holds none until it has it again', async () => {
    const { engine, state } = createTestLiveEngine();
    const agent = await harness.agent({
      liveEngines: [engine],
      // The times are in the order of the real ones, and longer than a standstill of some seconds.
      leaseTimes: { durationSeconds: 20, renewEveryMs: 1_000, fenceAfterMs: 8_000 },
    });
    const relay = await session(agent, 'full-live-swap');
    harness.proxy.set('refuse');
    await relay.over;
    expect(relay.ended()?.reason).toBe(EndReason.END_REASON_RENDER_FAILED);
    await until(() => state.open === 0, 'the stream is closed');
    await expect(session(agent, 'full-live-swap')).rejects.toMatchObject({ code: status.UNAVAILABLE });
    harness.proxy.set('open');
    await until(
      () =>
        session(agent, 'full-live-swap').then(
          () => true,
          () => false,
        ),
      'works again',
    );
  });
});
