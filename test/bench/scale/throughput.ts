import { setTimeout as delay } from 'node:timers/promises';
import { RENDERJOB_RESOURCE } from '@semblance/crds/gen/renderjobs';
import { cpuSecondsOf, residentBytesOf } from '../http/process-use.ts';
import { apiWrites, writesBetween } from '../lib/api-writes.ts';
import { type BenchContext, figure, type Row, type Section } from '../lib/section.ts';
import { bareWrites } from './bare-writes.ts';
import { inTurn, jobOf, LEASE_SECONDS, type Setting, type SettingOptions, startSetting } from './setting.ts';

const JOBS = 15_000;
const GOAL_SECONDS = 300;
/** Seconds after which the run is given up. */
const LIMIT_SECONDS = 420;
const AGENTS = 100;
const SLOTS = 8;
const RENDER_MS = 200;
/** Creates under way at once. */
const CREATORS = 16;
/** Jobs of the plain loop; its rate does not depend on their number. */
const BARE_JOBS = 1_500;
const BARE_AT_ONCE = 32;

export interface ThroughputOptions {
  readonly jobs?: number;
  readonly bareJobs?: number;
  readonly env?: SettingOptions['env'];
}

/** Measures RenderJobs from the first create until the last is terminal, and the same writes by a plain loop. */
export async function runThroughputBench(
  context: BenchContext,
  { jobs = JOBS, bareJobs = BARE_JOBS, env }: ThroughputOptions = {},
): Promise<Section> {
  const { say, stack } = context;
  const options = { namespace: 'bench-scale', slots: SLOTS, renderMs: RENDER_MS };
  const setting = await startSetting(context, env ? { ...options, env } : options);
  try {
    await setting.agents(AGENTS);
    const { services } = stack.read();
    const parts = { operator: setting.operator.pid, agents: setting.agentsPid };
    const pids = {
      ...parts,
      'kube-apiserver': services['kube-apiserver'] ?? 0,
      etcd: services.etcd ?? 0,
    };
    const cpu = () => {
      const { user, system } = process.cpuUsage();
      return [...Object.values(pids).map((pid) => cpuSecondsOf(pid) ?? Number.NaN), (user + system) / 1e6];
    };
    const before = { cpu: cpu(), writes: await apiWrites(stack) };
    const run = await timed(setting, jobs, say);
    const used = cpu().map((seconds, i) => ((seconds - (before.cpu[i] ?? 0)) * 1_000) / jobs);
    // Events are written after the statuses, and the finalizers are removed last.
    await delay(2_000);
    const writes = writesBetween(before.writes, await apiWrites(stack));
    await verify(setting, jobs);
    const events = (writes.get('POST events') ?? 0) / jobs;
    say(`scale: ${figure(jobs / run.seconds)} jobs/s; now the same writes by a plain loop`);
    await bareWrites(setting.client, { ...bare(200, events), namespace: 'bench-scale-warm' });
    const limit = await bareWrites(setting.client, {
      ...bare(bareJobs, events),
      namespace: 'bench-scale-bare',
    });
    return {
      title: 'Scale: throughput',
      rows: rowsOf(jobs, run, limit),
      notes: [
        `${AGENTS} simulated agents with ${SLOTS} slots each, a render takes ${RENDER_MS} ms; ${CREATORS} creates under way at once, for 20 accounts in turn; all were created after ${figure(run.createdSeconds)} s. Every job ended Succeeded after one attempt, and the agents began as many attempts as there were jobs.`,
        `CPU of a job: ${[...Object.keys(pids), 'this client']
          .map((name, i) => `${name} ${figure(used[i] ?? Number.NaN)} ms`)
          .join(', ')}.`,
        `Writes to the API for a job: ${[...writes]
          .sort(([, a], [, b]) => b - a)
          .filter(([, count]) => count >= jobs / 100)
          .map(([what, count]) => `${what} ${figure(count / jobs)}`)
          .join(', ')}. Leases last ${LEASE_SECONDS} s and are renewed four times in that.`,
        `Operator: ${figure(run.peakMib)} MiB resident at most, with ${jobs} RenderJobs at the end.`,
      ],
    };
  } finally {
    await setting.close();
  }
}

const bare = (count: number, eventsPerJob: number) => ({ count, atOnce: BARE_AT_ONCE, eventsPerJob });

interface Timed {
  readonly seconds: number;
  readonly createdSeconds: number;
  readonly peakMib: number;
}

async function timed(setting: Setting, jobs: number, say: (line: string) => void): Promise<Timed> {
  const { client, namespace, operator, metric } = setting;
  const began = performance.now();
  const since = () => (performance.now() - began) / 1_000;
  let createdSeconds = Number.NaN;
  const creating = inTurn(jobs, CREATORS, (n) =>
    client.createForMetadata(RENDERJOB_RESOURCE, jobOf(namespace, nameOf(n), n)),
  ).then(() => {
    createdSeconds = since();
  });
  creating.catch(() => undefined);
  let peak = 0;
  let said = 0;
  for (;;) {
    const ended = await metric('semblance_jobs_finished_total');
    peak = Math.max(peak, residentBytesOf(operator.pid) ?? Number.NaN);
    if (ended >= jobs) break;
    if (since() - said >= 10) {
      said = since();
      say(`scale: ${ended} of ${jobs} after ${figure(said)} s`);
    }
    if (since() > LIMIT_SECONDS) throw new Error(`${ended} of ${jobs} have ended after ${LIMIT_SECONDS} s`);
    await delay(1_000);
  }
  const seconds = since();
  await creating;
  return { seconds, createdSeconds, peakMib: peak / 2 ** 20 };
}

/** Checks that the resources and the agents agree with the number of jobs. */
async function verify({ client, namespace, begun }: Setting, jobs: number): Promise<void> {
  const { items } = await client.list(RENDERJOB_RESOURCE, { namespace });
  const good = items.filter(({ status }) => status?.phase === 'Succeeded' && status.attempt === 1).length;
  const attempts = await begun();
  if (good !== jobs || items.length !== jobs || attempts !== jobs) {
    throw new Error(`${good} of ${items.length} succeeded at once, and agents began ${attempts} attempts`);
  }
}

function rowsOf(jobs: number, run: Timed, limit: number): Row[] {
  const rate = jobs / run.seconds;
  // The goal is scaled to the number of jobs, so that a shorter run gives the same verdict.
  const met = run.seconds <= (GOAL_SECONDS * jobs) / JOBS;
  return [
    {
      name: `${jobs.toLocaleString('en-US')} RenderJobs, created to terminal`,
      ours: `${figure(run.seconds)} s`,
      peer: '',
      ratio: '',
      goal: `≤ ${figure((GOAL_SECONDS * jobs) / JOBS)} s`,
      met: met ? 'met' : 'not met',
    },
    {
      name: 'jobs a second',
      ours: `${figure(rate)}/s`,
      peer: `${figure(limit)}/s (the same writes by a plain loop)`,
      ratio: (rate / limit).toFixed(2),
      goal: '',
      met: '',
    },
  ];
}

const nameOf = (n: number) => `job-${String(n).padStart(6, '0')}`;
