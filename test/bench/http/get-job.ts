import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import type { Stack } from '@semblance/testkit/stack/stack';
import {
  type BenchContext,
  figure,
  limitRow,
  quantile,
  type Row,
  ratioRow,
  type Section,
} from '../lib/section.ts';
import type { Target } from './answers.ts';
import { type Chain, cpuARequest, startChain } from './bare-chain.ts';
import { closedLoad, type Load } from './closed-load.ts';
import { offeredLoad } from './offered-load.ts';
import { startPeer } from './peer-process.ts';
import { cpuSecondsOf } from './process-use.ts';

const CONNECTIONS = 32;
/** Connections for a second comparison of the latency, where a request waits for few others. */
const CALM_CONNECTIONS = 2;
const SECONDS = 4;
/** Load as fast as it is answered. */
const BUSY = { seconds: SECONDS, connections: CONNECTIONS };
const CALM = { seconds: SECONDS, connections: CALM_CONNECTIONS };
/** Load at which neither side is at its limit. */
const OFFERED = { perSecond: 1_000, seconds: SECONDS, connections: CONNECTIONS };
const ROUNDS = 5;
/** Number of jobs that are read in turn, because real clients poll different jobs. */
const JOBS = 16;
const GOAL_RATIO = 0.35;
const GOAL_MORE_MS = 5;
const SERVICES = ['gateway', 'control-plane', 'postgres'] as const;

/**
 * Compares GET /jobs/{id} of settled jobs with a bare Koa router that answers the same JSON. Ours includes
 * authentication, the exact rate limit and the read from Postgres. The two take turns, so that other work on the
 * machine affects both. Each runs at full speed with both numbers of connections, and at a rate that both can keep.
 */
export async function runGetJobBench({ stack, say }: BenchContext): Promise<Section> {
  say(`job reads: making ${JOBS} jobs`);
  const { target, payload } = await prepareJobs(stack);
  const peer = await startPeer('bare-koa.ts', [payload]);
  let chain: Chain | undefined;
  try {
    const [busy, calm, offered] = [sides(), sides(), sides()];
    const inARow: Load[] = [];
    const cpu: CpuUse = { seconds: new Map(), requests: 0 };
    const peerCpu: CpuUse = { seconds: new Map(), requests: 0 };
    const other = { ...target, origin: peer.origin };
    const peerPids = { 'bare router': peer.pid };
    say('job reads: warming up');
    await closedLoad({ ...target, ...BUSY });
    await closedLoad({ ...other, ...BUSY });
    const used = await cpuARequest({ ...target, pids: Object.values(pidsOf(stack)) }, OFFERED);
    chain = await startChain(used, OFFERED);
    const row = { origin: chain.origin, paths: ['/'], headers: {} };
    for (let round = 1; round <= ROUNDS; round++) {
      say(`job reads: round ${round} of ${ROUNDS}, seven times ${SECONDS} s`);
      busy.theirs.push(await measured(peerPids, peerCpu, () => closedLoad({ ...other, ...BUSY })));
      busy.ours.push(await measured(pidsOf(stack), cpu, () => closedLoad({ ...target, ...BUSY })));
      calm.theirs.push(await closedLoad({ ...other, ...CALM }));
      calm.ours.push(await closedLoad({ ...target, ...CALM }));
      offered.theirs.push(await offeredLoad({ ...other, ...OFFERED }));
      offered.ours.push(await offeredLoad({ ...target, ...OFFERED }));
      inARow.push(await offeredLoad({ ...row, ...OFFERED }));
    }
    const rate = (loads: Load[]) => median(loads, ({ perSecond }) => perSecond);
    return {
      title: 'Reading a job',
      rows: [
        ratioRow({
          name: `GET /jobs/{id}, ${CONNECTIONS} connections`,
          ours: rate(busy.ours),
          peer: rate(busy.theirs),
          unit: '/s',
          peerName: 'bare Koa router',
          atLeast: GOAL_RATIO,
        }),
        latencyRow(`at ${figure(OFFERED.perSecond)}/s`, offered),
        chainRow(inARow, offered.theirs),
        latencyRow(`with ${CALM_CONNECTIONS} connections`, calm),
        latencyRow(`with ${CONNECTIONS} connections`, busy),
        ...cpuRows(cpu, 'ours'),
        ...cpuRows(peerCpu, 'peer'),
      ],
      notes: [
        `Medians of ${ROUNDS} turns of ${SECONDS} s each; every answer was 200. The client runs on the same cores.`,
        `${JOBS} jobs are read in turn, each settled and with an output: key, rate limit and job are read and counted in Postgres for each request.`,
        `At ${figure(OFFERED.perSecond)}/s the requests are offered over ${CONNECTIONS} connections, and each one's time counts from when it was due.`,
        `p99 of each turn at ${figure(OFFERED.perSecond)}/s: ours ${latencies(offered.ours)}, peer ${latencies(offered.theirs)} ms; with ${CALM_CONNECTIONS} connections: ours ${latencies(calm.ours)}, peer ${latencies(calm.theirs)} ms; with ${CONNECTIONS}: ours ${latencies(busy.ours)}, peer ${latencies(busy.theirs)} ms.`,
        `Three bare processes in a row use as much CPU a request at ${figure(OFFERED.perSecond)}/s as ${SERVICES.join(', ')} do (${list(used)} µs; measured ${list(chain.micros)}) and do nothing else: what of ours is above their p99 (${latencies(inARow)} ms) is not explained by that.`,
        `CPU a request: user and system time of the process and its children under load of ${CONNECTIONS} connections; "client" is the load generator itself.`,
      ],
    };
  } finally {
    await chain?.stop();
    await peer.stop();
  }
}

interface Sides {
  readonly ours: Load[];
  readonly theirs: Load[];
}

const sides = (): Sides => ({ ours: [], theirs: [] });
const median = (loads: readonly Load[], pick: (load: Load) => number) => quantile(loads.map(pick), 0.5);
const list = (values: readonly number[]) => values.map(figure).join(', ');
const latencies = (loads: readonly Load[]) => list(loads.map(({ p99 }) => p99));

async function prepareJobs(stack: Stack): Promise<{ target: Target; payload: string }> {
  const account = await stack.newAccount();
  const { api } = account;
  const [image_key, face_key] = [await api.upload(ADMIRAL), await api.upload(ASTRONAUT)];
  const submitted = await Promise.all(Array.from({ length: JOBS }, () => api.swap({ image_key, face_key })));
  const jobs = await Promise.all(submitted.map(({ id }) => api.finished(id)));
  const failed = jobs.find(({ status }) => status !== 'succeeded');
  if (failed) throw new Error(`a job to be read failed: ${JSON.stringify(failed.error)}`);
  const base = new URL(api.baseUrl);
  return {
    target: {
      origin: base.origin,
      paths: jobs.map(({ id }) => `${base.pathname}/jobs/${id}`),
      headers: { authorization: `Bearer ${account.apiKey}` },
    },
    payload: JSON.stringify(jobs[0]),
  };
}

interface CpuUse {
  /** CPU seconds by process. */
  readonly seconds: Map<string, number>;
  requests: number;
}

function pidsOf(stack: Stack): Record<string, number> {
  const { services } = stack.read();
  return Object.fromEntries(SERVICES.map((name) => [name, services[name] ?? 0]));
}

/** Adds up the CPU that the processes use during a load, and that of this process, which makes the load. */
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

function latencyRow(load: string, { ours, theirs }: Sides): Row {
  const [own, peer] = [ours, theirs].map((loads) => median(loads, ({ p99 }) => p99)) as [number, number];
  const name = `p99 ${load}, above the bare router's`;
  const row = limitRow({ name, ours: own - peer, limit: GOAL_MORE_MS, unit: 'ms' });
  return { ...row, ours: `${figure(own)} ms`, peer: `${figure(peer)} ms (bare Koa router)` };
}

/** Explains the rest of the p99: the time to wait for as many processes in turn on these cores. */
function chainRow(inARow: readonly Load[], router: readonly Load[]): Row {
  const [chain, own] = [inARow, router].map((loads) => median(loads, ({ p99 }) => p99)) as [number, number];
  return {
    name: '  of it three bare processes in a row with its CPU',
    ours: `${figure(chain)} ms`,
    peer: `${figure(own)} ms (bare Koa router)`,
    ratio: '',
    goal: '',
    met: '',
  };
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
