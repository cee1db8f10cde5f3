import { setTimeout as delay } from 'node:timers/promises';
import { RENDERJOB_RESOURCE } from '@semblance/crds/gen/renderjobs';
import { residentBytesOf } from '../http/process-use.ts';
import { type BenchContext, limitRow, type Section } from '../lib/section.ts';
import { inTurn, jobOf, startSetting } from './setting.ts';

const JOBS = 10_000;
const AGENTS = 10;
const LIMIT_MB = 256;
/** Seconds for which the memory is watched after the last create. */
const REST_SECONDS = 30;

/**
 * Measures the memory of the operator while RenderJobs arrive that all wait, and that of an operator started
 * afterwards.
 */
export async function runMemoryAtScale(context: BenchContext): Promise<Section> {
  const { say } = context;
  // A render takes longer than the benchmark, so that waiting jobs stay waiting.
  const options = { namespace: 'bench-memory', slots: 1, renderMs: 3_600_000 };
  const setting = await startSetting(context, options);
  let peak = 0;
  const look = (pid: number) => {
    const now = (residentBytesOf(pid) ?? Number.NaN) / 1e6;
    peak = Math.max(peak, now);
    return now;
  };
  const timer = setInterval(() => look(setting.operator.pid), 100);
  try {
    await setting.agents(AGENTS);
    const idle = look(setting.operator.pid);
    say(`scale: creating ${JOBS} jobs`);
    const { client, namespace } = setting;
    await inTurn(JOBS, 16, (n) =>
      client.createForMetadata(RENDERJOB_RESOURCE, jobOf(namespace, `job-${String(n).padStart(6, '0')}`, n)),
    );
    say('scale: all created');
    await delay(REST_SECONDS * 1_000);
    const known = await setting.metric('semblance_kube_objects', { resource: 'renderjobs' });
    if (known !== JOBS) throw new Error(`the operator knows ${known} RenderJobs`);
    const rest = look(setting.operator.pid);
    clearInterval(timer);
    const highest = peak;
    const next = await restarted(setting, look);
    return {
      title: 'Scale: memory of the operator',
      rows: [
        limitRow({ name: `${JOBS} RenderJobs waiting, at most`, ours: highest, limit: LIMIT_MB, unit: 'MB' }),
        limitRow({ name: `${JOBS} RenderJobs waiting, at rest`, ours: rest, limit: LIMIT_MB, unit: 'MB' }),
        limitRow({ name: 'started with them, at most', ours: next, limit: LIMIT_MB, unit: 'MB' }),
      ],
      notes: [
        `Resident memory; ${AGENTS} agents, all busy. Before the first job it was ${Math.round(idle)} MB. At rest: ${REST_SECONDS} s after the last create, while the jobs are told their places.`,
      ],
    };
  } finally {
    clearInterval(timer);
    await setting.close();
  }
}

/** Returns the peak memory of an operator that takes over, in MB, over the first `REST_SECONDS`. */
async function restarted(
  setting: Awaited<ReturnType<typeof startSetting>>,
  look: (pid: number) => number,
): Promise<number> {
  const pid = await setting.restart();
  let most = 0;
  for (const end = performance.now() + REST_SECONDS * 1_000; performance.now() < end; await delay(100)) {
    most = Math.max(most, look(pid));
  }
  return most;
}
