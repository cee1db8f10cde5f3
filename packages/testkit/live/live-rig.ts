import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { call, createClient } from '@semblance/common/grpc/client';
import { startGrpcServer } from '@semblance/common/grpc/server';
import { createRegistry } from '@semblance/common/health';
import { newId } from '@semblance/common/ids';
import { silentLogger } from '@semblance/common/logging';
import { createDispatcher } from '@semblance/gpu-agent/assets/transfer';
import { openWorkDir } from '@semblance/gpu-agent/assets/work-dir';
import { createLive, type LiveOptions } from '@semblance/gpu-agent/live/live';
import { liveSettings } from '@semblance/gpu-agent/live/settings';
import { createAgentMetrics } from '@semblance/gpu-agent/metrics';
import {
  ChangeSessionRequest,
  ClaimSlotRequest,
  EndReason,
  LiveServiceClient,
  type SessionStatus,
  type WatchSessionsResponse,
} from '@semblance/proto/semblance/live/v1/live';
import { QUICK_TRANSFERS, until } from '../gpu-agent/harness.ts';
import { openRelay } from './relay-client.ts';

export const SETTINGS = {
  ...liveSettings(
    { SEMBLANCE_LIVE_VOICE_RATE: 48_000, SEMBLANCE_LIVE_VOICE_CHUNK_FRAMES: 960 },
    { cores: 2, memoryMib: 4_096 },
  ),
  voiceSlots: 4,
  // How fast models are must not change what tests see.
  voiceSlotsGiven: true,
  videoSlots: 0,
};

/** LiveService on a real gRPC server, without the rest of an agent. */
export async function startLiveRig(change: Partial<LiveOptions> & { holdsLease?: () => boolean } = {}) {
  const dir = await mkdtemp(join(tmpdir(), 'semblance-live-test-'));
  const incarnation = newId('');
  const logger = silentLogger();
  const workDir = await openWorkDir({ root: dir, incarnation, logger });
  const registry = createRegistry('gpu-agent');
  const dispatcher = createDispatcher(QUICK_TRANSFERS);
  let changes = 0;
  const live = await createLive({
    settings: SETTINGS,
    incarnation,
    registry,
    metrics: createAgentMetrics(registry, { slots: () => 0, slotsUsed: () => 0, unacknowledged: () => 0 }),
    workDir,
    dispatcher,
    transferLimits: QUICK_TRANSFERS,
    contentChecks: { assertAllowed: async () => {} },
    logger,
    holdsLease: () => true,
    onChange: () => changes++,
    ...change,
  });
  const server = await startGrpcServer({ listen: { host: '127.0.0.1', port: 0 }, services: [live.service] });
  const address = `127.0.0.1:${server.port}`;
  const client = createClient(LiveServiceClient, address);
  live.start();

  const tickets = new Map<string, Buffer>();
  function request(change: Partial<ClaimSlotRequest> = {}): ClaimSlotRequest {
    const sessionId = change.sessionId ?? newId('ses-');
    const ticket = tickets.get(sessionId) ?? randomBytes(32);
    tickets.set(sessionId, ticket);
    return ClaimSlotRequest.fromPartial({
      sessionId,
      incarnation,
      capability: 'voice',
      ticketSha256: createHash('sha256').update(ticket).digest(),
      connectDeadlineSeconds: 60,
      maxDurationSeconds: 600,
      ...change,
    });
  }
  const timeoutMs = 30_000;

  return {
    live,
    client,
    address,
    incarnation,
    workDir,
    changes: () => changes,
    warm: () => until(() => live.statement.every(({ warming }) => !warming), 'live engines warm'),
    request,
    async claim(change: Partial<ClaimSlotRequest> = {}) {
      const asked = request(change);
      await call(client.claimSlot.bind(client), asked, { timeoutMs });
      return asked.sessionId;
    },
    end: (sessionId: string, reason = EndReason.END_REASON_CANCELLED, named = incarnation) =>
      call(client.endSession.bind(client), { sessionId, incarnation: named, reason }, { timeoutMs }),
    /** Changes a session, as the control plane does. */
    async change(sessionId: string, to: Partial<ChangeSessionRequest> = {}) {
      const asked = ChangeSessionRequest.fromPartial({ sessionId, incarnation, ...to });
      return (await call(client.changeSession.bind(client), asked, { timeoutMs })).outcome;
    },
    /** @param by client; default: the shared one */
    relay(sessionId: string, ticket = tickets.get(sessionId) ?? Buffer.alloc(32), by = client) {
      return openRelay(by, { sessionId, incarnation, ticket, requestId: '' });
    },
    watch: () => watch(client, incarnation),
    /** Reads one metric by name and labels. */
    async figure(name: string, ...labels: string[]) {
      const line = (await registry.metrics())
        .split('\n')
        .find((each) => each.startsWith(`${name}{`) && labels.every((label) => each.includes(label)));
      return line === undefined ? undefined : Number(line.split(' ').at(-1));
    },
    async close() {
      client.close();
      await live.close();
      live.service.endWatches();
      await server.close(200);
      await dispatcher.destroy();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

export type LiveRig = Awaited<ReturnType<typeof startLiveRig>>;

/** Collects the messages of a watch. */
function watch(client: LiveServiceClient, incarnation: string) {
  const messages: WatchSessionsResponse[] = [];
  const latest = new Map<string, SessionStatus>();
  const stream = client.watchSessions({ incarnation });
  stream.on('error', () => {});
  const first = new Promise<WatchSessionsResponse>((resolve) => stream.once('data', resolve));
  stream.on('data', (message: WatchSessionsResponse) => {
    messages.push(message);
    for (const status of message.sessions) latest.set(status.sessionId, status);
  });
  return { messages, first, of: (id: string) => latest.get(id), cancel: () => stream.cancel() };
}
