import { createKubeClient, createReflector, type KubeClient } from '@semblance/common/kube/index';
import { createLogger, silentLogger } from '@semblance/common/logging';
import { GPUAGENT_RESOURCE, type GpuAgent } from '@semblance/crds/gen/gpuagents';
import { RENDERJOB_RESOURCE, type RenderJob } from '@semblance/crds/gen/renderjobs';
import type { ObjectStore } from '@semblance/objects/store';
import { type Operator, type OperatorOptions, startOperator } from '@semblance/operator/app';
import { testKube } from '../servers/shared.ts';
import { type FakeAgent, type FakeAgentOptions, startFakeAgent } from './fake-agent.ts';

/** Creates an object store that signs links, stores nothing, and records deletions. */
export function recordingObjects(): ObjectStore & { readonly deleted: string[] } {
  const deleted: string[] = [];
  const unused = () => Promise.reject(new Error('not used by the operator'));
  return {
    deleted,
    put: unused,
    info: unused,
    read: unused,
    delete: async (key) => void deleted.push(key),
    list() {
      throw new Error('not used by the operator');
    },
    signGet: async (key) => `http://objects.test/${key}?signed`,
    signPut: async (key, { contentType }) => ({
      url: `http://objects.test/${key}?signed`,
      headers: { 'content-type': contentType },
    }),
  };
}

export const readyOf = (job: RenderJob) => job.status?.conditions?.find(({ type }) => type === 'Ready');

/**
 * Whether the job waits for this reason at this position, or without one. A test must poll for it, because on a machine that stands
 * still another reason may come first.
 */
export const waits = (reason: string, position?: number) => (job: RenderJob) =>
  readyOf(job)?.reason === reason && job.status?.queuePosition === position;

/** Time in ms after which a test gives up; even a slow machine would be done long before. */
const WAIT_MS = 40_000;

export interface Harness {
  readonly kubeconfigPath: string;
  readonly namespace: string;
  readonly client: KubeClient;
  readonly objects: ReturnType<typeof recordingObjects>;
  operator(overrides?: Partial<OperatorOptions>): Promise<Operator>;
  /** Ends the running operators, as SIGTERM does. */
  endOperators(): Promise<void>;
  agent(options: Omit<FakeAgentOptions, 'kubeconfigPath' | 'namespace'>): Promise<FakeAgent>;
  job(name: string, spec?: Partial<RenderJob['spec']>): Promise<RenderJob>;
  get(name: string): Promise<RenderJob>;
  /** Waits until the job satisfies the condition. @throws with its last status otherwise */
  until(name: string, condition: (job: RenderJob) => boolean, timeoutMs?: number): Promise<RenderJob>;
  untilGone(name: string, timeoutMs?: number): Promise<void>;
  /** Records every state of the RenderJobs from now on, so that a short-lived one is not missed. */
  history(): Promise<(name: string) => readonly RenderJob[]>;
  agentUntil(name: string, condition: (agent: GpuAgent) => boolean, timeoutMs?: number): Promise<GpuAgent>;
  close(): Promise<void>;
}

let serial = 0;

/**
 * Creates a namespace at a real API server with the parts that tests of the operator need. Its close ends all of
 * them.
 */
export async function createHarness(kube?: Awaited<ReturnType<typeof testKube>>): Promise<Harness> {
  const given = kube ?? (await testKube());
  const { kubeconfigPath, namespace } = given;
  const client = createKubeClient({ kubeconfigPath, fieldManager: 'semblance-test' });
  const objects = recordingObjects();
  const operators: Operator[] = [];
  const agents: FakeAgent[] = [];
  const ending = new AbortController();
  const watching: Promise<void>[] = [];
  const level = process.env.SEMBLANCE_TEST_LOG;
  const logger = level ? createLogger({ service: 'operator', level }) : silentLogger();

  async function poll<T>(
    read: () => Promise<T | undefined>,
    done: (value: T | undefined) => boolean,
    timeoutMs: number,
  ): Promise<T | undefined> {
    for (const deadline = Date.now() + timeoutMs; ; ) {
      let cause: unknown;
      const value = await read().catch((error: unknown) => {
        cause = error;
        return undefined;
      });
      if (done(value)) return value;
      if (Date.now() > deadline) {
        const last = cause === undefined ? JSON.stringify(value) : String(cause);
        throw new Error(`not so within ${timeoutMs} ms: ${last}`, { cause });
      }
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  }

  const get = (name: string) => client.get(RENDERJOB_RESOURCE, { namespace, name });
  return {
    kubeconfigPath,
    namespace,
    client,
    objects,
    async operator(overrides = {}) {
      const started = await startOperator({
        kubeconfigPath,
        namespace,
        objects,
        logger,
        identity: `operator-${++serial}`,
        healthListen: { host: '127.0.0.1', port: 0 },
        // The lease survives a machine that stands still, and is released at once when an operator ends.
        election: { leaseDurationMs: 60_000, renewDeadlineMs: 50_000, retryPeriodMs: 500 },
        // For the same reason allocations wait longer for a slot.
        waitForSlotMs: 8_000,
        claimTimeoutMs: 8_000,
        ...overrides,
      });
      operators.push(started);
      return started;
    },
    async endOperators() {
      for (const operator of operators.splice(0)) await operator.close();
    },
    async agent(options) {
      const started = await startFakeAgent({ kubeconfigPath, namespace, ...options });
      agents.push(started);
      return started;
    },
    job: (name, spec = {}) =>
      client.create(RENDERJOB_RESOURCE, {
        metadata: { name, namespace },
        spec: {
          capability: 'face-swap-image',
          inputs: [
            { name: 'image', key: 'api/test/base.jpg' },
            { name: 'face', key: 'api/test/face.jpg' },
          ],
          ...spec,
        },
      }),
    get,
    async until(name, condition, timeoutMs = WAIT_MS) {
      const found = await poll(
        () => get(name),
        (job) => job !== undefined && condition(job),
        timeoutMs,
      );
      return found as RenderJob;
    },
    async untilGone(name, timeoutMs = WAIT_MS) {
      await poll(
        async () => (await client.find(RENDERJOB_RESOURCE, { namespace, name })) ?? 'gone',
        (job) => job === 'gone',
        timeoutMs,
      );
    },
    async history() {
      const states: RenderJob[] = [];
      const keep = (job: RenderJob) => void states.push(job);
      const reflector = createReflector<RenderJob>({
        client,
        resource: RENDERJOB_RESOURCE,
        namespace,
        logger,
        handlers: { onAdd: keep, onUpdate: keep },
      });
      watching.push(reflector.run(ending.signal));
      await reflector.waitForSync(ending.signal);
      return (of) => states.filter(({ metadata }) => metadata.name === of);
    },
    async agentUntil(name, condition, timeoutMs = WAIT_MS) {
      const found = await poll(
        () => client.get(GPUAGENT_RESOURCE, { namespace, name }),
        (agent) => agent !== undefined && condition(agent),
        timeoutMs,
      );
      return found as GpuAgent;
    },
    async close() {
      ending.abort(new Error('the test ends'));
      await Promise.all(watching);
      for (const operator of operators) await operator.close();
      for (const agent of agents) await agent.kill();
      await client.close();
      if (!kube) await given.close();
    },
  };
}
