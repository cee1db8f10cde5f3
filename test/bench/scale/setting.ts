import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { AGENT_CLEANUP_FINALIZER } from '@semblance/common/finalizers';
import { createKubeClient, type KubeClient, NAMESPACE_RESOURCE } from '@semblance/common/kube/index';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import { freePort } from '@semblance/local/process/ports';
import { FIELD_MANAGER } from '@semblance/operator/app';
import { createOperatorProcesses, type OperatorProcess } from '@semblance/testkit/operator/operator-process';
import { eventually } from '@semblance/testkit/stack/eventually';
import type { BenchContext } from '../lib/section.ts';

/** Length of the agents' Leases. With a thousand agents, shorter Leases cost the API server more than the jobs do. */
export const LEASE_SECONDS = 40;
/** Number of accounts to which the jobs belong in turn. */
const ACCOUNTS = 20;

export interface SettingOptions {
  /** Namespace for this benchmark alone, at the stack's API server. */
  readonly namespace: string;
  readonly slots: number;
  readonly renderMs: number;
  /** Additional environment of the operator. */
  readonly env?: Readonly<Record<string, string>>;
}

/** One real operator in its own namespace, and a process of simulated agents. */
export interface Setting {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly operator: OperatorProcess;
  readonly agentsPid: number;
  /** Makes `count` agents run and take work. */
  agents(count: number): Promise<void>;
  /** Returns the jobs that agents have taken since the last call, with their times in Unix ms. */
  taken(): Promise<[job: string, atMs: number][]>;
  /** Returns the number of attempts that agents have begun in all. */
  begun(): Promise<number>;
  /**
   * Ends the operator and starts another.
   * @returns its pid when it is ready
   */
  restart(): Promise<number>;
  /** Returns a figure of the operator, summed over the labels that are not named. */
  metric(name: string, labels?: Readonly<Record<string, string>>): Promise<number>;
  close(): Promise<void>;
}

export async function startSetting({ stack }: BenchContext, options: SettingOptions): Promise<Setting> {
  const { namespace } = options;
  const { kubeconfig: kubeconfigPath } = stack.read();
  const client = createKubeClient({ kubeconfigPath, fieldManager: FIELD_MANAGER });
  await client.apply(NAMESPACE_RESOURCE, { metadata: { name: namespace } });
  const processes = await createOperatorProcesses({ kubeconfigPath, namespace });
  const agents = startAgents(kubeconfigPath, options);
  const health = `127.0.0.1:${await freePort()}`;
  let running: OperatorProcess | undefined;
  const close = async () => {
    // The operator ends cleanly, so that a profiler can write its findings.
    await running?.kill('SIGTERM');
    await processes.close();
    await agents.end();
    await client.close();
  };
  const metric: Setting['metric'] = async (name, labels = {}) => {
    const text = await (await fetch(`http://${health}/metrics`)).text();
    const wanted = Object.entries(labels).map(([key, value]) => `${key}="${value}"`);
    const lines = text
      .split('\n')
      .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
    return lines
      .filter((line) => wanted.every((label) => line.includes(label)))
      .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
  };
  try {
    const start = async (identity: string) => {
      const started = await processes.start(identity, { SEMBLANCE_HEALTH_LISTEN: health, ...options.env });
      running = started;
      // The port is chosen here, so that the figures can be read.
      await eventually('the operator to be ready', async () =>
        (await fetch(`http://${health}/readyz`)).ok ? true : undefined,
      );
      return started;
    };
    const operator = await start('bench');
    return {
      client,
      namespace,
      operator,
      metric,
      close,
      agentsPid: agents.pid,
      async agents(count) {
        await agents.ask(`agents ${count}`);
        await eventually(
          'the agents to take work',
          async () => ((await metric('semblance_agent_slots')) === count * options.slots ? true : undefined),
          { withinMs: 180_000, everyMs: 200 },
        );
      },
      taken: async () => JSON.parse(await agents.ask('taken')) as [string, number][],
      begun: async () => JSON.parse(await agents.ask('begun')) as number,
      async restart() {
        await operator.kill('SIGTERM');
        return (await start('bench-next')).pid;
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * Returns a job like those of the control plane, but without the finalizer that the control plane keeps until the
 * settlement. Here the operator makes the write that would remove both finalizers.
 */
export function jobOf(namespace: string, name: string, n: number): Omit<RenderJob, 'apiVersion' | 'kind'> {
  return {
    metadata: { name, namespace, finalizers: [AGENT_CLEANUP_FINALIZER] },
    spec: {
      capability: 'face-swap-image',
      inputs: [
        { name: 'image', key: 'api/bench/base.jpg' },
        { name: 'face', key: 'api/bench/face.jpg' },
      ],
      account: `account-${n % ACCOUNTS}`,
    },
  };
}

/** Runs `count` tasks in order, at most `atOnce` at a time. */
export async function inTurn(
  count: number,
  atOnce: number,
  task: (n: number) => Promise<unknown>,
): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < count) await task(next++);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}

function startAgents(kubeconfigPath: string, { namespace, slots, renderMs }: SettingOptions) {
  const script = join(import.meta.dirname, 'agents-process.ts');
  const args = [script, kubeconfigPath, namespace, ...[slots, renderMs, LEASE_SECONDS].map(String)];
  const child = spawn(process.execPath, args, {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, NODE_ENV: 'production' },
  });
  const exited = once(child, 'exit');
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  return {
    pid: child.pid ?? 0,
    async ask(question: string): Promise<string> {
      child.stdin.write(`${question}\n`);
      const { done, value } = await lines.next();
      if (done) throw new Error('the agents ended');
      return value;
    },
    async end() {
      child.stdin.end();
      await exited;
    },
  };
}
