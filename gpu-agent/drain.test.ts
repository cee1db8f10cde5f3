import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { call, createClient } from '@semblance/common/grpc/client';
import { newId } from '@semblance/common/ids';
import { NAMESPACE_RESOURCE } from '@semblance/common/kube/index';
import { GPUAGENT_RESOURCE } from '@semblance/crds/gen/gpuagents';
import { freePort } from '@semblance/local/process/ports';
import {
  AgentServiceClient,
  AttemptState,
  type StartAttemptRequest,
} from '@semblance/proto/semblance/agent/v1/agent';
import { ClaimSlotRequest, EndReason, LiveServiceClient } from '@semblance/proto/semblance/live/v1/live';
import {
  createHarness,
  type Harness,
  startRequest,
  until,
  watch,
} from '@semblance/testkit/gpu-agent/harness';
import { openRelay } from '@semblance/testkit/live/relay-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AGENT_FLAGS } from './node-flags.ts';

const media = join(import.meta.dirname, '../media');
const timeoutMs = 30_000;
/** Far longer than the work of the sessions takes, even when the machine stands still for seconds. */
const LIVE_DRAIN_SECONDS = 10;

let harness: Harness;
let agent: Awaited<ReturnType<typeof agentProcess>>;
/** Ends the started process, ready or not. */
let end: (() => Promise<unknown>) | undefined;
beforeAll(async () => {
  harness = await createHarness();
  harness.store.objects.set('/in/image', await readFile(join(media, 'grace_hopper.jpg')));
  harness.store.objects.set('/in/face', await readFile(join(media, 'astronaut.png')));
  // The warm-up on a busy machine takes most of this time and is not under test.
  agent = await agentProcess({
    SEMBLANCE_AGENT_SLOTS: '1',
    SEMBLANCE_LIVE_VOICE_SLOTS: '2',
    SEMBLANCE_AGENT_DRAIN_SECONDS: '60',
    SEMBLANCE_AGENT_LIVE_DRAIN_SECONDS: String(LIVE_DRAIN_SECONDS),
  });
});
afterAll(async () => {
  await end?.();
  await harness?.close();
});

/** Starts an agent as a process with the engine `builtin`. */
async function agentProcess(env: Readonly<Record<string, string>>) {
  const [port, healthPort] = [await freePort(), await freePort()];
  const name = `agent-${randomBytes(4).toString('hex')}`;
  const child = spawn(process.execPath, [...AGENT_FLAGS, join(import.meta.dirname, 'main.ts')], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      ...process.env,
      KUBECONFIG: harness.kubeconfig,
      SEMBLANCE_NAMESPACE: harness.namespace,
      SEMBLANCE_AGENT_NAME: name,
      SEMBLANCE_AGENT_LISTEN: `127.0.0.1:${port}`,
      SEMBLANCE_HEALTH_LISTEN: `127.0.0.1:${healthPort}`,
      SEMBLANCE_AGENT_WORK_DIR: join(harness.dir, name),
      SEMBLANCE_AGENT_LEASE_SECONDS: '60',
      SEMBLANCE_LIVE_VIDEO_SLOTS: '0',
      ...env,
    },
  });
  const exited = once(child, 'exit');
  end = () => {
    child.kill('SIGKILL');
    return exited;
  };
  const resource = () => harness.kube.find(GPUAGENT_RESOURCE, { namespace: harness.namespace, name });
  const ready = async () => {
    const status = (await resource())?.status;
    return (status?.slots ?? 0) > 0 && (status?.live?.[0]?.slots ?? 0) > 0;
  };
  // Node sets one of the two within the time of the hook.
  const ended = () => child.exitCode ?? child.signalCode;
  await until(async () => ended() !== null || (await ready()), 'slots or its end', Infinity);
  if (ended() !== null) throw new Error(`the agent ended: ${ended()}`);
  return {
    child,
    exited,
    resource,
    incarnation: (await resource())?.status?.incarnation ?? '',
    address: `127.0.0.1:${port}`,
  };
}

/** Starts a live session with a streaming relay. */
async function session(client: LiveServiceClient, incarnation: string) {
  const ticket = randomBytes(32);
  const sessionId = newId('ses-');
  const claim = ClaimSlotRequest.fromPartial({
    sessionId,
    incarnation,
    capability: 'voice',
    connectDeadlineSeconds: 60,
    maxDurationSeconds: 600,
    ticketSha256: createHash('sha256').update(ticket).digest(),
  });
  await call(client.claimSlot.bind(client), claim, { timeoutMs });
  const relay = openRelay(client, { sessionId, incarnation, ticket, requestId: '' });
  await relay.ready;
  relay.send(randomBytes(1_920));
  await relay.next();
  return relay;
}

function requestOf(incarnation: string, image: string): StartAttemptRequest {
  const asked = startRequest(harness.store, incarnation, '', { parameters: {} });
  asked.inputs = { ...asked.inputs, image: { url: harness.store.url(image), maxBytes: 0n } };
  return { ...asked, sinks: ['image/jpeg', 'image/png'].map((contentType) => sinkOf(asked, contentType)) };
}

/** Starts a render that waits for its picture until `held` resolves. */
async function heldRender(client: AgentServiceClient, incarnation: string) {
  const held = Promise.withResolvers<void>();
  harness.store.on('/in/held', async (request, response) => {
    await held.promise;
    harness.store.serve(request, response, harness.store.objects.get('/in/image') as Buffer);
  });
  const render = requestOf(incarnation, '/in/held');
  await call(client.startAttempt.bind(client), render, { timeoutMs });
  return { ref: render.ref, held };
}

describe('an agent that is asked to end', () => {
  it('lets a render finish, and warns the sessions that it ends, as a process', async () => {
    const { child, exited, resource, incarnation, address } = agent;
    const attempts = createClient(AgentServiceClient, address);
    const live = createClient(LiveServiceClient, address);
    try {
      const watching = watch(attempts, incarnation);
      const { ref, held } = await heldRender(attempts, incarnation);
      await watching.until(ref, ({ stage }) => stage === 'fetch');
      const relay = await session(live, incarnation);

      child.kill('SIGTERM');
      await until(() => relay.ending() !== undefined, 'the session is warned');
      expect(relay.ending()).toEqual({ reason: 'agent_draining', inSeconds: LIVE_DRAIN_SECONDS });
      await expect(session(live, incarnation)).rejects.toThrow('the agent takes no new sessions');
      await expect(
        call(attempts.startAttempt.bind(attempts), requestOf(incarnation, '/in/image'), { timeoutMs }),
      ).rejects.toThrow('the agent takes no new work');
      // Media flow until the session is ended.
      relay.send(randomBytes(1_920));
      await relay.next();
      await relay.over;
      expect(relay.ended()).toEqual({
        reason: EndReason.END_REASON_CANCELLED,
        message: 'the agent is ending; open another session',
        goingAway: true,
        rejected: '',
      });
      held.resolve();
      expect((await watching.ended(ref)).state).toBe(AttemptState.ATTEMPT_STATE_SUCCEEDED);
      await call(attempts.acknowledgeAttempt.bind(attempts), { ref, incarnation }, { timeoutMs });
      expect(await exited).toEqual([0, null]);
      expect((await resource())?.status).toMatchObject({ draining: true, slots: 0 });
    } finally {
      attempts.close();
      live.close();
    }
  });
});

describe('an agent whose namespace is being deleted', () => {
  beforeAll(async () => {
    agent = await agentProcess({
      SEMBLANCE_AGENT_SLOTS: '1',
      SEMBLANCE_LIVE_VOICE_SLOTS: '2',
      // No test takes this long.
      SEMBLANCE_AGENT_DRAIN_SECONDS: '600',
      SEMBLANCE_AGENT_LIVE_DRAIN_SECONDS: '600',
    });
  });

  it('ends at once with all that it does', async () => {
    const { child, exited, incarnation, address } = agent;
    const attempts = createClient(AgentServiceClient, address);
    const live = createClient(LiveServiceClient, address);
    try {
      const watching = watch(attempts, incarnation);
      const { ref } = await heldRender(attempts, incarnation);
      await watching.until(ref, ({ stage }) => stage === 'fetch');
      const relay = await session(live, incarnation);
      // Without controllers, a cluster does not delete the content of a namespace, so it stays `Terminating`.
      await harness.kube.delete(NAMESPACE_RESOURCE, { name: harness.namespace });
      child.kill('SIGTERM');
      await relay.over;
      expect(relay.ended()).toMatchObject({ reason: EndReason.END_REASON_CANCELLED, goingAway: true });
      expect(await exited).toEqual([0, null]);
    } finally {
      attempts.close();
      live.close();
    }
  });
});

function sinkOf({ ref }: StartAttemptRequest, contentType: string) {
  const path = `/out/${ref?.jobUid}`;
  return { contentType, url: harness.store.url(path), headers: {}, key: path.slice(1) };
}
