import { setTimeout as delay } from 'node:timers/promises';
import { RENDERJOB_RESOURCE } from '@semblance/crds/gen/renderjobs';
import { eventually } from '@semblance/testkit/stack/eventually';
import { cpuSecondsOf } from '../http/process-use.ts';
import { type BenchContext, figure, quantile, type Row, type Section } from '../lib/section.ts';
import { jobOf, LEASE_SECONDS, type Setting, startSetting } from './setting.ts';

const AGENTS = [10, 100, 1_000];
const SLOTS = 4;
const RENDER_MS = 100;
/** Jobs created per second, whether or not earlier ones were taken; the next constant is for how long. */
const OFFERED = 20;
const SECONDS = 20;

/**
 * Measures the time from when a job was due to be created until an agent was asked to begin it. The rate is even,
 * and slots are free.
 */
export async function runDispatchBench(context: BenchContext): Promise<Section> {
  const setting = await startSetting(context, {
    namespace: 'bench-dispatch',
    slots: SLOTS,
    renderMs: RENDER_MS,
  });
  const rows: Row[] = [];
  try {
    const cpu = () => cpuSecondsOf(setting.operator.pid) ?? Number.NaN;
    for (const agents of AGENTS) {
      context.say(`scale: ${agents} agents`);
      const began = performance.now();
      await setting.agents(agents);
      context.say(`scale: ready after ${figure((performance.now() - began) / 1_000)} s`);
      await offered(setting, `warm-${agents}`, OFFERED);
      const before = { cpu: cpu(), at: performance.now() };
      const { created, dispatched } = await offered(setting, `job-${agents}`, OFFERED * SECONDS);
      const share = (cpu() - before.cpu) / ((performance.now() - before.at) / 1_000);
      rows.push(
        rowOf(`create → dispatch, ${agents} agents, p50`, dispatched, created, 0.5),
        rowOf(`create → dispatch, ${agents} agents, p99`, dispatched, created, 0.99),
        { ...PLAIN, name: `operator's CPU meanwhile, ${agents} agents`, ours: `${figure(share * 100)} %` },
      );
    }
    return {
      title: 'Scale: dispatch',
      rows,
      notes: [
        `${OFFERED} jobs a second for ${SECONDS} s, each timed from when it was due until its agent was asked to begin, by the clock of one machine; agents with ${SLOTS} slots, renders of ${RENDER_MS} ms, so that a slot is free each time. Leases last ${LEASE_SECONDS} s and are renewed four times in that: ${LEASE_SECONDS / 4} s apart.`,
      ],
    };
  } finally {
    await setting.close();
  }
}

const PLAIN = { peer: '', ratio: '', goal: '', met: '' } as const;

async function offered(
  { client, namespace, taken }: Setting,
  name: string,
  total: number,
): Promise<{ created: number[]; dispatched: number[] }> {
  const epoch = () => performance.timeOrigin + performance.now();
  const due = new Map<string, number>();
  const created: number[] = [];
  const creating: Promise<void>[] = [];
  const dispatched: number[] = [];
  const create = async (n: number, at: number) => {
    await client.createForMetadata(RENDERJOB_RESOURCE, jobOf(namespace, `${name}-${n}`, n));
    created.push(epoch() - at);
  };
  const began = epoch();
  for (let n = 0; n < total; n++) {
    const at = began + (n * 1_000) / OFFERED;
    if (at > epoch()) await delay(at - epoch());
    due.set(`${name}-${n}`, at);
    const made = create(n, at);
    made.catch(() => undefined);
    creating.push(made);
  }
  await Promise.all(creating);
  await eventually('all jobs to be taken on', async () => {
    for (const [job, at] of await taken()) dispatched.push(at - (due.get(job) ?? Number.NaN));
    return dispatched.length >= total ? true : undefined;
  });
  return { created, dispatched };
}

function rowOf(name: string, ours: readonly number[], created: readonly number[], share: number): Row {
  return {
    name,
    ours: `${figure(quantile(ours, share))} ms`,
    peer: `${figure(quantile(created, share))} ms (of which the create)`,
    ratio: '',
    goal: '',
    met: '',
  };
}
