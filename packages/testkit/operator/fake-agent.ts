import { randomBytes } from 'node:crypto';
import { type ServerWritableStream, status } from '@grpc/grpc-js';
import { GrpcError, type GrpcServer, startGrpcServer, unary } from '@semblance/common/grpc/server';
import { createKubeClient, createLeaseKeeper, type KubeClient } from '@semblance/common/kube/index';
import { silentLogger } from '@semblance/common/logging';
import { GPUAGENT_RESOURCE, type GpuAgentStatus } from '@semblance/crds/gen/gpuagents';
import {
  type AcknowledgeAttemptRequest,
  AgentServiceService,
  AttemptState,
  type AttemptStatus,
  type StartAttemptRequest,
  type StopAttemptRequest,
  type WatchAttemptsRequest,
  type WatchAttemptsResponse,
} from '@semblance/proto/semblance/agent/v1/agent';
import { createFakeLive, type FakeLive, type SaidLive, type SlotLedger } from './fake-live.ts';

const CAPABILITY = 'face-swap-image';

/** Behaviour of an attempt after its begin; the script decides the timing. */
export type Script = (run: Run) => void | Promise<void>;

/** Attempt that runs on a scripted agent. */
export interface Run {
  readonly request: StartAttemptRequest;
  readonly agent: string;
  readonly stopped: AbortSignal;
  progress(fraction: number, stage?: string): void;
  succeed(): void;
  fail(code: string, message: string): void;
  interrupt(message: string): void;
  /** The agent ends the attempt by itself. */
  stop(): void;
}

/** Every interval in which an attempt ran anywhere, to prove that none overlap. */
export interface Ledger {
  readonly entries: { uid: string; attempt: number; agent: string; from: number; to: number }[];
}

export interface FakeAgentOptions {
  readonly kubeconfigPath: string;
  readonly namespace: string;
  readonly name: string;
  readonly slots?: number;
  readonly script: Script;
  readonly ledger?: Ledger;
  readonly capabilities?: readonly string[];
  /** Voices and languages that it tells of each capability. Default: none. */
  readonly speech?: NonNullable<GpuAgentStatus['engines']>[number]['capabilities'][number]['speech'];
  /** Memory that the agent states, and that a render takes, in MiB. */
  readonly memoryMib?: number;
  readonly renderMemoryMib?: number;
  /** The card that it states, what its engine holds there, and what a render takes, in MiB. */
  readonly card?: {
    readonly uuid: string;
    readonly totalMib: number;
    readonly heldMib: number;
    readonly renderMib: number;
  };
  /** Slots for live sessions, by capability. */
  readonly live?: Readonly<Record<string, number>>;
  readonly slotLedger?: SlotLedger;
  readonly lax?: boolean;
  /**
   * Duration of the Lease in seconds. Default 60, so that a machine that stands still loses no agent in tests of
   * other subjects.
   */
  readonly leaseSeconds?: number;
  /** Renewal interval in ms. Default 2,000. */
  readonly renewEveryMs?: number;
  /** Shared client that stays open when the agent ends. Default: a client of its own. */
  readonly client?: KubeClient;
}

export interface FakeAgent {
  readonly incarnation: string;
  readonly address: string;
  /** Attempts that really began, as `uid/attempt`. */
  readonly begun: string[];
  readonly starts: StartAttemptRequest[];
  readonly stops: { uid: string; attempt: number }[];
  readonly acknowledged: string[];
  /** Held attempts: running, or ended and not acknowledged. */
  readonly held: ReadonlyMap<string, AttemptStatus>;
  /** Slots for live sessions. */
  readonly live: FakeLive;
  /** Changes the stated live slots. */
  setLive(live: SaidLive): Promise<void>;
  /** Status with which the next starts are refused. */
  refuseWith: status | undefined;
  /** Stops answering, renewing and working, as SIGKILL does. */
  kill(): Promise<void>;
  setDraining(draining: boolean): Promise<void>;
  /** Breaks all streams without ending any work. */
  dropStreams(): void;
}

interface Held {
  status: AttemptStatus;
  readonly stop: AbortController;
  entry?: Ledger['entries'][number];
}

/** Starts an agent in this process that follows the real protocol exactly and runs a script instead of renders. */
export async function startFakeAgent(options: FakeAgentOptions): Promise<FakeAgent> {
  const { kubeconfigPath, namespace, name, slots = 2, script, ledger, leaseSeconds = 60 } = options;
  const incarnation = randomBytes(6).toString('hex');
  const client = options.client ?? createKubeClient({ kubeconfigPath, fieldManager: 'semblance-agent' });
  const attempts = new Map<string, Held>();
  const burned = new Map<string, number>();
  const streams = new Set<ServerWritableStream<WatchAttemptsRequest, WatchAttemptsResponse>>();
  const starts: StartAttemptRequest[] = [];
  const stops: { uid: string; attempt: number }[] = [];
  const acknowledged: string[] = [];
  const begun: string[] = [];
  const { live = {}, slotLedger, lax } = options;
  const fakeLive = createFakeLive({ agent: name, incarnation, slots: live, ledger: slotLedger, lax });
  let saidLive: SaidLive = Object.entries(live).map(([of, count]) => ({ name: of, slots: count }));
  let draining = false;
  let dead = false;

  const keyOf = (uid: string, attempt: number) => `${uid}/${attempt}`;
  const isRunning = ({ status: { state } }: Held) => state === AttemptState.ATTEMPT_STATE_RUNNING;

  function change(key: string, update: Partial<AttemptStatus>): void {
    const held = attempts.get(key);
    if (!held || dead || !isRunning(held)) return;
    held.status = { ...held.status, ...update };
    if (!isRunning(held)) end(held);
    for (const stream of streams) stream.write({ snapshot: false, attempts: [held.status] });
  }

  function end(held: Held): void {
    held.stop.abort();
    if (held.entry) held.entry.to = performance.now();
  }

  function begin(request: StartAttemptRequest): void {
    const { jobUid = '', attempt = 0 } = request.ref ?? {};
    const key = keyOf(jobUid, attempt);
    const state = AttemptState.ATTEMPT_STATE_RUNNING;
    const held: Held = {
      status: { ref: request.ref, state, progress: 0, stage: 'fetch', startedAtMs: BigInt(Date.now()) },
      stop: new AbortController(),
    };
    if (ledger) {
      held.entry = {
        uid: jobUid,
        attempt,
        agent: name,
        from: performance.now(),
        to: Number.POSITIVE_INFINITY,
      };
      ledger.entries.push(held.entry);
    }
    attempts.set(key, held);
    begun.push(key);
    for (const stream of streams) stream.write({ snapshot: false, attempts: [held.status] });
    const sink = request.sinks[0];
    void script({
      request,
      agent: name,
      stopped: held.stop.signal,
      progress: (progress, stage = 'swap') => change(key, { progress, stage }),
      succeed: () =>
        change(key, {
          state: AttemptState.ATTEMPT_STATE_SUCCEEDED,
          output: {
            key: sink?.key ?? '',
            contentType: sink?.contentType ?? '',
            sizeBytes: 1234n,
            sha256Hex: 'ab'.repeat(32),
            unit: 'image',
            milliUnits: 1000n,
            stages: [{ name: 'swap', milliseconds: 12.5, engine: '' }],
            engine: 'scripted/1',
          },
        }),
      fail: (code, message) =>
        change(key, { state: AttemptState.ATTEMPT_STATE_FAILED, failure: { code, message } }),
      interrupt: (message) =>
        change(key, {
          state: AttemptState.ATTEMPT_STATE_INTERRUPTED,
          failure: { code: 'processing_failed', message },
        }),
      stop: () => change(key, { state: AttemptState.ATTEMPT_STATE_STOPPED }),
    });
  }

  const logger = silentLogger();
  const refuse = (code: status, why: string) => {
    throw new GrpcError(code, why);
  };
  const self: FakeAgent = {
    incarnation,
    get address() {
      return `127.0.0.1:${server.port}`;
    },
    begun,
    starts,
    stops,
    acknowledged,
    get held() {
      return new Map([...attempts].map(([key, { status }]) => [key, status]));
    },
    live: fakeLive,
    async setLive(said) {
      saidLive = said;
      await register(client);
    },
    refuseWith: undefined,
    async kill() {
      if (dead) return;
      dead = true;
      // The client closes first, so that the Lease cannot be released.
      if (!options.client) await client.close();
      ending.abort();
      for (const held of attempts.values()) if (isRunning(held)) end(held);
      for (const stream of streams) stream.destroy();
      fakeLive.kill();
      await server.close(0);
    },
    async setDraining(value) {
      draining = value;
      fakeLive.draining = value;
      await register(client);
    },
    dropStreams() {
      for (const stream of streams) stream.emit('error', { code: status.UNAVAILABLE, details: 'dropped' });
      streams.clear();
    },
  };

  const server: GrpcServer = await startGrpcServer({
    listen: { host: '127.0.0.1', port: 0 },
    services: [
      {
        name: 'semblance.agent.v1.AgentService',
        definition: AgentServiceService,
        implementation: {
          startAttempt: unary(logger, async (request: StartAttemptRequest) => {
            starts.push(request);
            const { jobUid = '', attempt = 0 } = request.ref ?? {};
            if (self.refuseWith !== undefined) refuse(self.refuseWith, 'scripted refusal');
            if (request.incarnation !== incarnation)
              refuse(status.FAILED_PRECONDITION, 'another incarnation');
            if (attempts.has(keyOf(jobUid, attempt))) return {};
            if ((burned.get(jobUid) ?? 0) >= attempt) refuse(status.FAILED_PRECONDITION, 'outdated attempt');
            if (draining) refuse(status.FAILED_PRECONDITION, 'draining');
            if ([...attempts.values()].filter(isRunning).length >= slots)
              refuse(status.RESOURCE_EXHAUSTED, 'no slot');
            burned.set(jobUid, attempt);
            begin(request);
            return {};
          }),
          stopAttempt: unary(logger, async ({ ref, incarnation: asked }: StopAttemptRequest) => {
            if (asked !== incarnation) refuse(status.FAILED_PRECONDITION, 'another incarnation');
            const { jobUid = '', attempt = 0 } = ref ?? {};
            stops.push({ uid: jobUid, attempt });
            burned.set(jobUid, Math.max(attempt, burned.get(jobUid) ?? 0));
            change(keyOf(jobUid, attempt), { state: AttemptState.ATTEMPT_STATE_STOPPED });
            return {};
          }),
          acknowledgeAttempt: unary(
            logger,
            async ({ ref, incarnation: asked }: AcknowledgeAttemptRequest) => {
              if (asked !== incarnation) refuse(status.FAILED_PRECONDITION, 'another incarnation');
              const key = keyOf(ref?.jobUid ?? '', ref?.attempt ?? 0);
              const held = attempts.get(key);
              if (held && !isRunning(held)) attempts.delete(key);
              acknowledged.push(key);
              return {};
            },
          ),
          watchAttempts(stream: ServerWritableStream<WatchAttemptsRequest, WatchAttemptsResponse>) {
            if (stream.request.incarnation !== incarnation) {
              stream.emit('error', { code: status.FAILED_PRECONDITION, details: 'another incarnation' });
              return;
            }
            streams.add(stream);
            const gone = () => streams.delete(stream);
            stream.on('cancelled', gone).on('close', gone).on('error', gone);
            stream.write({ snapshot: true, attempts: [...attempts.values()].map((held) => held.status) });
          },
        },
      },
      fakeLive.service,
    ],
  });

  async function register(by: KubeClient): Promise<void> {
    const metadata = { name, namespace };
    await by.apply(GPUAGENT_RESOURCE, { metadata, spec: {} });
    const { memoryMib, renderMemoryMib, card } = options;
    const capabilities = (options.capabilities ?? [CAPABILITY]).map((each) => ({
      name: each,
      slots: 1,
      ...(renderMemoryMib !== undefined && { memoryMib: renderMemoryMib }),
      ...(card && { vramMib: card.renderMib }),
      ...(options.speech && { speech: options.speech }),
    }));
    const own = {
      incarnation,
      address: `127.0.0.1:${server.port}`,
      node: 'test',
      version: '1',
      slots,
      draining,
      engines: [{ name: 'scripted', version: '1', capabilities, ...(card && { vramMib: card.heldMib }) }],
      ...(card && { cards: [{ uuid: card.uuid, totalMib: card.totalMib, usedMib: card.heldMib }] }),
      ...(memoryMib !== undefined && { memoryMib }),
      ...(saidLive.length > 0 && { live: saidLive }),
    };
    await by.apply(GPUAGENT_RESOURCE, { metadata, status: own }, { subresource: 'status' });
  }

  const ending = new AbortController();
  const lease = createLeaseKeeper({
    client,
    namespace,
    name,
    holder: incarnation,
    logger,
    durationSeconds: leaseSeconds,
    renewEveryMs: options.renewEveryMs ?? 2_000,
    fenceAfterMs: leaseSeconds * 1000 - 1_500,
    onFenced() {
      for (const key of attempts.keys()) change(key, { state: AttemptState.ATTEMPT_STATE_STOPPED });
    },
  });
  await lease.acquire(ending.signal);
  // A killed process releases nothing.
  void lease.run(ending.signal).catch(() => {});
  await register(client);
  return self;
}
