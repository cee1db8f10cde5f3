import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { call, createClient } from '@semblance/common/grpc/client';
import { createKubeClient, LEASE_RESOURCE } from '@semblance/common/kube/index';
import { silentLogger } from '@semblance/common/logging';
import { GPUAGENT_RESOURCE } from '@semblance/crds/gen/gpuagents';
import { type Agent, type AgentOptions, startAgent } from '@semblance/gpu-agent/agent';
import { DEFAULT_TRANSFER_LIMITS } from '@semblance/gpu-agent/assets/transfer';
import { loadSettings } from '@semblance/gpu-agent/settings';
import {
  AgentServiceClient,
  type AttemptStatus,
  StartAttemptRequest,
  type WatchAttemptsResponse,
} from '@semblance/proto/semblance/agent/v1/agent';
import type { Provenance } from '@semblance/provenance/provenance';
import { startKubeProxy } from '../kube/kube-proxy.ts';
import { testKube } from '../servers/shared.ts';
import { type HttpStore, startHttpStore } from './http-store.ts';
import { TEST_ENGINE } from './test-engine.ts';

/** The engine of these tests makes no pictures, so its bytes are stored unmarked. */
export const NO_MARKS: Provenance = {
  statement: { manifests: false, message: 'outputs of tests are not marked' },
  ready: async () => {},
  mark: async ({ path }) => path,
};

export const QUICK_TRANSFERS = {
  ...DEFAULT_TRANSFER_LIMITS,
  headersMs: 10_000,
  idleMs: 10_000,
  tries: 3,
  storeTries: 3,
  pauseMs: 10,
  maxPauseMs: 50,
};

/** Creates a real API server behind a relay, a real object store, and agents in this process. */
export async function createHarness() {
  const kubeTest = await testKube();
  const store: HttpStore = await startHttpStore();
  const dir = await mkdtemp(join(tmpdir(), 'semblance-agent-test-'));
  const kubeconfig = join(dir, 'kubeconfig');
  const proxy = await startKubeProxy(kubeTest.kubeconfigPath, kubeconfig);
  const kube = createKubeClient({ kubeconfigPath: kubeTest.kubeconfigPath, fieldManager: 'test' });
  const { namespace } = kubeTest;
  const ends: (() => Promise<unknown>)[] = [];

  const face = randomBytes(1_000);
  store.objects.set('/in/image', randomBytes(5_000));
  store.objects.set('/in/face', face);

  async function agent(options: Partial<AgentOptions> & { env?: NodeJS.ProcessEnv } = {}) {
    const { env, ...rest } = options;
    const name = env?.SEMBLANCE_AGENT_NAME ?? `agent-${randomBytes(4).toString('hex')}`;
    const workDir = join(dir, name);
    const settings = loadSettings({
      KUBECONFIG: kubeconfig,
      SEMBLANCE_NAMESPACE: namespace,
      SEMBLANCE_AGENT_NAME: name,
      SEMBLANCE_AGENT_SLOTS: '2',
      SEMBLANCE_AGENT_WORK_DIR: workDir,
      SEMBLANCE_AGENT_DRAIN_SECONDS: '0',
      // The long lease prevents fencing when the machine stands still for seconds; tests of fencing set their own.
      SEMBLANCE_AGENT_LEASE_SECONDS: '60',
      // Tests of live sessions set their own slots.
      SEMBLANCE_LIVE_VOICE_SLOTS: '0',
      SEMBLANCE_LIVE_VIDEO_SLOTS: '0',
      ...env,
    });
    const started: Agent = await startAgent({
      settings,
      logger: silentLogger(),
      signal: new AbortController().signal,
      engines: [TEST_ENGINE],
      transferLimits: QUICK_TRANSFERS,
      // A standing machine must not let a cancelled render exceed its grace.
      cancelGraceMs: 60_000,
      provenance: NO_MARKS,
      ...rest,
    });
    let over = false;
    started.failed.catch(() => {
      over = true;
    });
    const client = createClient(AgentServiceClient, started.address);
    const close = async () => {
      await started.close();
      client.close();
    };
    const watches: ReturnType<typeof watch>[] = [];
    ends.push(() => {
      // No watcher acknowledges results any more, so the agent need not wait for it.
      for (const { cancel } of watches) cancel();
      return close();
    });
    const request = (mode: string, change: Partial<StartAttemptRequest> = {}) =>
      startRequest(store, started.incarnation, mode, change);
    return {
      ...started,
      name,
      workDir,
      close,
      isOver: () => over,
      request,
      start: (asked: StartAttemptRequest) =>
        call(client.startAttempt.bind(client), asked, { timeoutMs: 30_000 }),
      stop: (ref: StartAttemptRequest['ref'], reason = '', incarnation = started.incarnation) =>
        call(client.stopAttempt.bind(client), { ref, reason, incarnation }, { timeoutMs: 30_000 }),
      acknowledge: (ref: StartAttemptRequest['ref'], incarnation = started.incarnation) =>
        call(client.acknowledgeAttempt.bind(client), { ref, incarnation }, { timeoutMs: 30_000 }),
      watch() {
        const watching = watch(client, started.incarnation);
        watches.push(watching);
        return watching;
      },
      client,
      resource: () => kube.find(GPUAGENT_RESOURCE, { namespace, name }),
      lease: () => kube.find(LEASE_RESOURCE, { namespace, name }),
      /** Returns the paths of all files of attempts on disk. */
      leftovers: async () => {
        const runs = await readdir(workDir);
        const lists = await Promise.all(runs.map((run) => readdir(join(workDir, run, 'attempts'))));
        return lists.flat();
      },
      /** Returns a function that reads a present value of /metrics by name and labels. */
      async figures() {
        const text = await (await fetch(`http://127.0.0.1:${started.healthPort}/metrics`)).text();
        return (name: string, ...labels: string[]) => {
          const line = text
            .split('\n')
            .find(
              (each) =>
                each.startsWith(`semblance_agent_${name}{`) && labels.every((label) => each.includes(label)),
            );
          return Number(line?.split(' ').at(-1));
        };
      },
      ready: async () => {
        const answer = await fetch(`http://127.0.0.1:${started.healthPort}/readyz`);
        return { status: answer.status, text: await answer.text() };
      },
    };
  }

  async function closeAgents() {
    proxy.set('open');
    await Promise.all(ends.splice(0).map((end) => end()));
  }

  return {
    agent,
    store,
    kube,
    proxy,
    namespace,
    kubeconfig,
    dir,
    closeAgents,
    async close() {
      await closeAgents();
      await kube.close();
      await proxy.close();
      await store.close();
      await kubeTest.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

export type Harness = Awaited<ReturnType<typeof createHarness>>;
export type TestAgent = Awaited<ReturnType<Harness['agent']>>;

export function startRequest(
  store: HttpStore,
  incarnation: string,
  mode: string,
  change: Partial<StartAttemptRequest>,
): StartAttemptRequest {
  const jobUid = randomUUID();
  return StartAttemptRequest.fromPartial({
    ref: { jobUid, attempt: 1 },
    jobName: 'job',
    incarnation,
    capability: 'face-swap-image',
    parameters: { mode },
    inputs: { image: { url: store.url('/in/image') }, face: { url: store.url('/in/face') } },
    sinks: [{ contentType: 'image/png', url: store.url(`/out/${jobUid}`), key: `out/${jobUid}.png` }],
    ...change,
  });
}

/** Collects the messages of a watch. */
export function watch(client: AgentServiceClient, incarnation: string) {
  const messages: WatchAttemptsResponse[] = [];
  const latest = new Map<string, AttemptStatus>();
  const stream = client.watchAttempts({ incarnation });
  let failure: unknown;
  stream.on('error', (error) => {
    failure = error;
  });
  stream.on('data', (message: WatchAttemptsResponse) => {
    messages.push(message);
    for (const status of message.attempts) latest.set(`${status.ref?.jobUid}/${status.ref?.attempt}`, status);
  });
  const of = (ref: StartAttemptRequest['ref']) => latest.get(`${ref?.jobUid}/${ref?.attempt}`);
  return {
    messages,
    of,
    cancel: () => stream.cancel(),
    failure: () => failure,
    /** Resolves with the attempt's status once it satisfies the condition. */
    async until(
      ref: StartAttemptRequest['ref'],
      holds: (status: AttemptStatus) => boolean,
      timeoutMs = 60_000,
    ): Promise<AttemptStatus> {
      const deadline = Date.now() + timeoutMs;
      for (;;) {
        const status = of(ref);
        if (status && holds(status)) return status;
        if (failure) throw failure;
        if (Date.now() > deadline) throw new Error(`not in time: ${JSON.stringify(status, bigints)}`);
        await delay(10);
      }
    },
    async ended(ref: StartAttemptRequest['ref'], timeoutMs?: number) {
      return this.until(ref, (status) => status.state > 1, timeoutMs);
    },
  };
}

const bigints = (_key: string, value: unknown) => (typeof value === 'bigint' ? Number(value) : value);

/** Polls until the condition holds. */
export async function until(
  holds: () => boolean | Promise<boolean>,
  what: string,
  timeoutMs = 60_000,
): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`not in time: ${what}`);
    await delay(20);
  }
}
