import autocannon from 'autocannon';
import { ADMIRAL, ASTRONAUT } from '../../support/media.ts';
import type { Stack } from '../../support/stack.ts';
import {
  type BenchContext,
  figure,
  limitRow,
  quantile,
  type Row,
  ratioRow,
  type Section,
} from '../lib/section.ts';
import { startPeer } from './peer-process.ts';
import { cpuSecondsOf } from './process-use.ts';

const CONNECTIONS = 32;
const SECONDS = 4;
const ROUNDS = 4;
/** Connections at which both sides' latency is compared: one request waits for few others. */
const CALM_CONNECTIONS = 2;
const GOAL_RATIO = 0.35;
const GOAL_MORE_MS = 5;
const SERVICES = ['gateway', 'control-plane', 'postgres'] as const;

interface Load {
  readonly perSecond: number;
  readonly p99: number;
  readonly p50: number;
}

/**
 * GET /jobs/{id} of a settled job, with authentication, the exact rate limit and the read from Postgres, against a bare
 * Koa router that answers the same JSON. The two take turns, so that what else the machine does hits both.
 */
export async function runGetJobBench({ stack, say }: BenchContext): Promise<Section> {
  const { target, payload } = await prepareJob(stack);
  const peer = await startPeer('bare-koa.ts', [payload]);
  try {
    const ours: Load[] = [];
    const theirs: Load[] = [];
    const cpu: CpuUse = { seconds: new Map(), requests: 0 };
    const peerCpu: CpuUse = { seconds: new Map(), requests: 0 };
    const path = new URL(target.url).pathname;
    const other = { ...target, url: peer.origin + path };
    say('job reads: warming up');
    await load(target, { seconds: 3 });
    await load(other, { seconds: 2 });
    for (let round = 1; round <= ROUNDS; round++) {
      say(`job reads: round ${round} of ${ROUNDS}, ${SECONDS} s each`);
      theirs.push(
        await measured({ 'bare router': peer.pid }, peerCpu, () => load(other, { seconds: SECONDS })),
      );
      ours.push(await measured(pidsOf(stack), cpu, () => load(target, { seconds: SECONDS })));
    }
    say(`job reads: both with ${CALM_CONNECTIONS} connections`);
    const calm = { seconds: SECONDS, connections: CALM_CONNECTIONS };
    const calmTheirs = await load(other, calm);
    const calmOurs = await load(target, calm);
    const median = (loads: Load[], pick: (load: Load) => number) => quantile(loads.map(pick), 0.5);
    const rate = (one: Load) => one.perSecond;
    const p99 = (one: Load) => one.p99;
    return {
      title: 'Reading a job',
      rows: [
        ratioRow({
          name: `GET /jobs/{id}, ${CONNECTIONS} connections`,
          ours: median(ours, rate),
          peer: median(theirs, rate),
          unit: '/s',
          peerName: 'bare Koa router',
          atLeast: GOAL_RATIO,
        }),
        latencyRow(
          `p99 with ${CALM_CONNECTIONS} connections, above the bare router's`,
          calmOurs.p99,
          calmTheirs.p99,
        ),
        latencyRow(
          `p99 with ${CONNECTIONS} connections, above the bare router's`,
          median(ours, p99),
          median(theirs, p99),
        ),
        ...cpuRows(cpu, 'ours'),
        ...cpuRows(peerCpu, 'peer'),
      ],
      notes: [
        `Medians of ${ROUNDS} turns of ${SECONDS} s each; every answer was 200. The client runs on the same cores.`,
        'The job is settled and has an output: key, rate limit and job are read and counted in Postgres on each request, and the link is signed.',
        'CPU a request: user and system time of the process and its children while ours was under load; "client" is the load generator itself.',
      ],
    };
  } finally {
    await peer.stop();
  }
}

interface Target {
  readonly url: string;
  readonly headers: Record<string, string>;
}

async function prepareJob(stack: Stack): Promise<{ target: Target; payload: string }> {
  const account = await stack.newAccount();
  const { api } = account;
  const [image_key, face_key] = [await api.upload(ADMIRAL), await api.upload(ASTRONAUT)];
  const { id } = await api.swap({ image_key, face_key });
  const job = await api.finished(id);
  if (job.status !== 'succeeded') throw new Error(`the job to be read failed: ${JSON.stringify(job.error)}`);
  const headers = { authorization: `Bearer ${account.apiKey}` };
  return { target: { url: `${api.baseUrl}/jobs/${id}`, headers }, payload: JSON.stringify(job) };
}

async function load(
  target: Target,
  { seconds, connections = CONNECTIONS }: { seconds: number; connections?: number },
): Promise<Load> {
  const result = await autocannon({
    url: target.url,
    headers: target.headers,
    connections,
    duration: seconds,
  });
  const bad = result.non2xx + result.errors + result.timeouts;
  if (bad > 0 || result['2xx'] === 0)
    throw new Error(`${bad} of the requests to ${target.url} were not answered 200`);
  // Counted over the whole time: autocannon's own mean is of whole seconds.
  return { perSecond: result['2xx'] / result.duration, p50: result.latency.p50, p99: result.latency.p99 };
}

interface CpuUse {
  /** Seconds by process. */
  readonly seconds: Map<string, number>;
  requests: number;
}

function pidsOf(stack: Stack): Record<string, number> {
  const { services } = stack.read();
  return Object.fromEntries(SERVICES.map((name) => [name, services[name] ?? 0]));
}

/** Adds up what the processes use during a load, and this one, which makes the load. */
async function measured(pids: Record<string, number>, cpu: CpuUse, run: () => Promise<Load>): Promise<Load> {
  const read = () => new Map(Object.entries(pids).map(([name, pid]) => [name, cpuSecondsOf(pid)]));
  const before = read();
  const clientBefore = process.cpuUsage();
  const result = await run();
  const after = read();
  const { user, system } = process.cpuUsage(clientBefore);
  const add = (name: string, seconds: number) =>
    cpu.seconds.set(name, (cpu.seconds.get(name) ?? 0) + seconds);
  for (const [name, seconds] of after) add(name, (seconds ?? Number.NaN) - (before.get(name) ?? Number.NaN));
  add('client', (user + system) / 1e6);
  cpu.requests += result.perSecond * SECONDS;
  return result;
}

function latencyRow(name: string, ours: number, peer: number): Row {
  const row = limitRow({ name, ours: ours - peer, limit: GOAL_MORE_MS, unit: 'ms' });
  return { ...row, ours: `${figure(ours)} ms`, peer: `${figure(peer)} ms (bare Koa router)` };
}

function cpuRows({ seconds, requests }: CpuUse, column: 'ours' | 'peer'): Row[] {
  return [...seconds].map(([name, used]) => ({
    name: `  CPU a request, ${name}`,
    ours: '',
    peer: '',
    ratio: '',
    goal: '',
    met: '',
    [column]: Number.isFinite(used) ? `${figure((used / requests) * 1e6)} µs` : 'unknown',
  }));
}
