import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { createKubeClient, type KubeClient, NAMESPACE_RESOURCE } from '@semblance/common/kube/index';
import { GPUAGENT_RESOURCE } from '@semblance/crds/gen/gpuagents';
import { LIVESESSION_RESOURCE } from '@semblance/crds/gen/livesessions';
import { FIELD_MANAGER } from '@semblance/operator/app';
import { allocationOf, createAllocations } from '@semblance/testkit/operator/allocate';
import { createOperatorProcesses } from '@semblance/testkit/operator/operator-process';
import { eventually } from '@semblance/testkit/stack/eventually';
import { cpuSecondsOf } from '../http/process-use.ts';
import { type BenchContext, figure, limitRow, quantile, type Row, type Section } from '../lib/section.ts';

const AGENTS = 8;
const SLOTS = 500;
/** Sessions opened in all, by callers that each open one after the other. */
const COUNT = 1_500;
const CALLERS = 32;
/**
 * Sessions opened per second, whether or not earlier ones were answered. The next two constants are for how long,
 * and how long each session lasts.
 */
const OFFERED = 50;
const SECONDS = 20;
const HOLD_MS = 3_000;
const RATE_GOAL = 300;
const P50_LIMIT_MS = 25;
const P99_LIMIT_MS = 150;

/** One operation; it gets its number. */
type Operation = (n: number) => Promise<unknown>;

/**
 * Measures allocations by a real operator at the API server of the stack. The peer is a bare create of the same
 * object by the same client, and no allocator that writes a resource can be faster.
 */
export async function runAllocationBench({ stack, say }: BenchContext): Promise<Section> {
  const { kubeconfig, services } = stack.read();
  const names = { ours: 'bench-allocation', bare: 'bench-allocation-bare' };
  const client = createKubeClient({ kubeconfigPath: kubeconfig, fieldManager: FIELD_MANAGER });
  for (const name of Object.values(names)) await client.apply(NAMESPACE_RESOURCE, { metadata: { name } });
  const where = { kubeconfigPath: kubeconfig, namespace: names.ours };
  const allocations = createAllocations({ client, namespace: names.ours });
  const processes = await createOperatorProcesses(where);
  const agents = startAgents(where);
  try {
    say(`allocation: ${AGENTS} agents with ${SLOTS} slots each, one operator`);
    await agents.line();
    const operator = await processes.start('bench');
    await operator.ready();
    await agentsReady(client, names.ours);
    const allocate: Operation = (n) => allocations.allocate(allocationOf(`session-${n}`));
    const create: Operation = (n) => createBare(client, names.bare, n);
    const servers = ['kube-apiserver', 'etcd'].map((name) => services[name] ?? 0);
    const cpu = () => [operator.pid, ...servers].map((pid) => cpuSecondsOf(pid) ?? Number.NaN);

    // Both run once unmeasured, so that neither is measured while its code is compiled.
    await closed(create, 0, 300);
    await closed(allocate, 0, 300);
    const bareBefore = await closed(create, 1_000, COUNT, cpu);
    say(`allocation: ${figure(bareBefore.perSecond)} bare creates/s`);
    const ours = await closed(allocate, 1_000, COUNT, cpu);
    say(`allocation: ${figure(ours.perSecond)} allocations/s`);
    const bareAfter = await closed(create, 3_000, COUNT, cpu);
    agents.say(`hold ${HOLD_MS}`);
    const bareOpen = await open(create, 10_000);
    const oursOpen = await open(allocate, 10_000);
    await delay(HOLD_MS);
    agents.say('verdict');
    const verdict = JSON.parse(await agents.line()) as { given: number; twice: number; most: number };
    const rows = rowsOf({ ours, bare: better(bareBefore, bareAfter), oursOpen, bareOpen, verdict });
    return {
      title: 'Allocation of live sessions',
      rows,
      notes: notesOf(ours, bareBefore, bareAfter, verdict),
    };
  } finally {
    allocations.close();
    await processes.close();
    await agents.end();
    await client.close();
  }
}

/** Creates a LiveSession like those that the operator writes. */
function createBare(client: KubeClient, namespace: string, n: number): Promise<unknown> {
  const { account, maxDurationSeconds, connectDeadlineSeconds } = allocationOf('');
  return client.createForMetadata(LIVESESSION_RESOURCE, {
    metadata: { name: `session-${n}`, namespace, annotations: { 'semblance.dev/allocated-by': 'bench' } },
    spec: {
      capability: 'voice',
      agent: `agent-${n % AGENTS}`,
      incarnation: '0123456789ab',
      account,
      maxDurationSeconds,
      connectDeadlineSeconds,
    },
  });
}

interface Measured {
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  /** CPU milliseconds per operation of operator, kube-apiserver and etcd. */
  readonly cpuMs: readonly number[];
}

/** Runs `count` operations; each caller waits for its last one before the next (closed loop). */
async function closed(
  operation: Operation,
  first: number,
  count: number,
  cpu: () => number[] = () => [],
): Promise<Measured> {
  const times: number[] = [];
  let next = 0;
  const caller = async () => {
    while (next < count) {
      const n = first + next++;
      const began = performance.now();
      await operation(n);
      times.push(performance.now() - began);
    }
  };
  const before = cpu();
  const began = performance.now();
  await Promise.all(Array.from({ length: CALLERS }, caller));
  const seconds = (performance.now() - began) / 1_000;
  const cpuMs = cpu().map((used, i) => ((used - (before[i] ?? 0)) * 1_000) / count);
  return { perSecond: count / seconds, p50: quantile(times, 0.5), p99: quantile(times, 0.99), cpuMs };
}

/** Runs operations at an even rate, and measures each from the time at which it was due (open loop). */
async function open(operation: Operation, first: number): Promise<{ p50: number; p99: number }> {
  const total = OFFERED * SECONDS;
  const times: number[] = [];
  const running: Promise<void>[] = [];
  const one = async (n: number, due: number) => {
    await operation(first + n);
    times.push(performance.now() - due);
  };
  const began = performance.now();
  while (running.length < total) {
    const dueBy = Math.min(total, 1 + Math.floor(((performance.now() - began) / 1_000) * OFFERED));
    while (running.length < dueBy) {
      const n = running.length;
      const done = one(n, began + (n / OFFERED) * 1_000);
      done.catch(() => undefined);
      running.push(done);
    }
    await delay(1);
  }
  await Promise.all(running);
  return { p50: quantile(times, 0.5), p99: quantile(times, 0.99) };
}

const better = (a: Measured, b: Measured) => (a.perSecond > b.perSecond ? a : b);

function rowsOf(of: {
  ours: Measured;
  bare: Measured;
  oursOpen: { p50: number; p99: number };
  bareOpen: { p50: number; p99: number };
  verdict: { twice: number };
}): Row[] {
  const { ours, bare, oursOpen, bareOpen, verdict } = of;
  const beside = (row: Row, peer: number): Row => ({ ...row, peer: `${figure(peer)} ms (bare create)` });
  const at = `at ${OFFERED}/s`;
  return [
    {
      name: `allocations, ${CALLERS} callers`,
      ours: `${figure(ours.perSecond)}/s`,
      peer: `${figure(bare.perSecond)}/s (bare creates)`,
      ratio: (ours.perSecond / bare.perSecond).toFixed(2),
      goal: `≥ ${RATE_GOAL}/s`,
      met: ours.perSecond >= RATE_GOAL ? 'met' : 'not met',
    },
    beside(
      limitRow({ name: `allocation ${at}, p50`, ours: oursOpen.p50, limit: P50_LIMIT_MS, unit: 'ms' }),
      bareOpen.p50,
    ),
    beside(
      limitRow({ name: `allocation ${at}, p99`, ours: oursOpen.p99, limit: P99_LIMIT_MS, unit: 'ms' }),
      bareOpen.p99,
    ),
    limitRow({ name: 'slots given twice', ours: verdict.twice, limit: 0, unit: '' }),
  ];
}

function notesOf(
  ours: Measured,
  before: Measured,
  after: Measured,
  verdict: { given: number; most: number },
): string[] {
  const [operator = 0, apiserver = 0, etcd = 0] = ours.cpuMs;
  const [, bareApiserver = 0, bareEtcd = 0] = before.cpuMs;
  return [
    `${AGENTS} scripted agents with ${SLOTS} slots each, which give a slot to whoever asks, free or not: ${verdict.given} were given, at most ${verdict.most} on one agent at once.`,
    `${COUNT} by ${CALLERS} callers took ${figure(ours.p50)} ms at the median and ${figure(ours.p99)} ms at p99; bare creates ${figure(before.p50)} and ${figure(before.p99)} ms before, at ${figure(before.perSecond)}/s, and at ${figure(after.perSecond)}/s after.`,
    `CPU of one allocation: operator ${figure(operator)} ms, kube-apiserver ${figure(apiserver)} ms, etcd ${figure(etcd)} ms; of a bare create: kube-apiserver ${figure(bareApiserver)} ms, etcd ${figure(bareEtcd)} ms. The client and the agents are besides.`,
    `At ${OFFERED}/s, each timed from when it was due, sessions end after ${HOLD_MS / 1_000} s, so that statuses and events are written all the while; those of the callers go on.`,
  ];
}

async function agentsReady(client: KubeClient, namespace: string): Promise<void> {
  await eventually(
    'the agents to be ready',
    async () => {
      const { items } = await client.list(GPUAGENT_RESOURCE, { namespace });
      const ready = items.filter(({ status }) => status?.conditions?.some(({ status: is }) => is === 'True'));
      return ready.length === AGENTS ? true : undefined;
    },
    { withinMs: 30_000 },
  );
}

function startAgents({ kubeconfigPath, namespace }: { kubeconfigPath: string; namespace: string }) {
  const script = join(import.meta.dirname, 'agents-process.ts');
  const args = [script, kubeconfigPath, namespace, String(AGENTS), String(SLOTS)];
  const child = spawn(process.execPath, args, {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, NODE_ENV: 'production' },
  });
  const exited = once(child, 'exit');
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  return {
    async line(): Promise<string> {
      const { done, value } = await lines.next();
      if (done) throw new Error('the agents ended');
      return value;
    },
    say: (line: string) => void child.stdin.write(`${line}\n`),
    async end() {
      child.stdin.end();
      await exited;
    },
  };
}
