import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { silentLogger } from '@semblance/common/logging';
import { migrate, readMigrations } from '@semblance/control-plane/storage/migrate';
import { openSql, type Sql } from '@semblance/control-plane/storage/sql';
import type { EventBus } from '@semblance/events/bus';
import { jobEvent } from '@semblance/events/jobs';
import { createNatsBus } from '@semblance/events/nats-bus';
import { createDatabase } from '@semblance/local/postgres';
import { resolveTools } from '@semblance/local/toolchain/toolchain';
import { seedJobs, settleJobs } from '@semblance/testkit/control-plane/webhook-jobs';
import { dropDatabase, startNats } from '@semblance/testkit/servers/start';
import { cpuSecondsOf } from '../http/process-use.ts';
import { type BenchContext, figure, limitRow, quantile, type Section } from '../lib/section.ts';
import { type Child, start } from './processes.ts';

const ENDPOINTS = 200;
const HANGING = 10;
/** Deliveries that wait when the worker starts. */
const BACKLOG = 12_000;
/** Deliveries per second while the latency is measured; the next constant is for how long. */
const OFFERED = 200;
const SECONDS = 12;
const BARE_AT_ONCE = [32, 128];
const RATE_GOAL = 1_000;
const RATIO_GOAL = 0.5;
const P99_LIMIT_MS = 250;

export async function runWebhookBench({ stack, say }: BenchContext): Promise<Section> {
  return measureWebhooks({ adminUrl: stack.read().postgres_url, say });
}

interface Setting {
  readonly url: string;
  readonly natsUrl: string;
  readonly folder: string;
  readonly receivers: Child;
  readonly sql: Sql;
  readonly bus: EventBus;
  readonly say: (line: string) => void;
}

/** Measures deliveries per second of one worker, and the delay of the first attempt. One endpoint in twenty hangs. */
export async function measureWebhooks(options: {
  adminUrl: string;
  say: (line: string) => void;
}): Promise<Section> {
  const { adminUrl, say } = options;
  const folder = await mkdtemp(join(tmpdir(), 'semblance-bench-webhooks-'));
  const name = `bench_${randomUUID().slice(0, 8)}`;
  const url = await createDatabase(adminUrl, name);
  const tools = await resolveTools(['nats-server'], { report: () => {} });
  const nats = await startNats({ binary: tools['nats-server'], dir: join(folder, 'nats') });
  const bus = createNatsBus({ url: nats.url, name: 'bench', logger: silentLogger() });
  const receivers = start('receivers.ts', [`${ENDPOINTS - HANGING}`, `${HANGING}`]);
  const sql = openSql({ url, maxConnections: 4, settings: {}, deadlineMs: 0 });
  try {
    const ports = JSON.parse(await receivers.line()) as { answering: number[]; hanging: number[] };
    const toUrl = (port: number) => `http://127.0.0.1:${port}/hooks/semblance`;
    const hanging = new Set(ports.hanging.map(toUrl));
    // One endpoint in twenty hangs; these are spread among the others.
    const callbacks = ports.answering.map(toUrl);
    [...hanging].forEach((one, i) => void callbacks.splice(i * (ENDPOINTS / HANGING), 0, one));
    say(`webhooks: ${BACKLOG + OFFERED * SECONDS} jobs for ${ENDPOINTS} endpoints, ${HANGING} of which hang`);
    await migrate(url, await readMigrations());
    const jobs = await seedJobs(sql, callbacks, BACKLOG + OFFERED * SECONDS);
    const answers = (job: string) => !hanging.has(callbacks[Number(job.slice(4)) % ENDPOINTS] as string);
    const setting = { url, natsUrl: nats.url, folder, receivers, sql, bus, say };

    const backlog = jobs.slice(0, BACKLOG);
    const ours = await drain(setting, backlog, backlog.filter(answers).length);
    const latencies = await offer(setting, jobs.slice(BACKLOG), answers);
    const bare = await bareLoop(setting, backlog.filter(answers), callbacks);
    return report(ours, latencies, bare);
  } finally {
    await receivers.end();
    await bus.close();
    await sql.end();
    await nats.stop();
    await dropDatabase(adminUrl, name);
    await rm(folder, { recursive: true, force: true });
  }
}

const startWorker = ({ url, natsUrl, folder }: Setting) =>
  start('worker-process.ts', [url, natsUrl, join(folder, 'objects')]);

async function publish(bus: EventBus, jobs: readonly string[]): Promise<void> {
  let next = 0;
  const one = async () => {
    for (let job = jobs[next++]; job; job = jobs[next++])
      await bus.publish(jobEvent(job, 'succeeded', new Date()));
  };
  await Promise.all(Array.from({ length: 256 }, one));
}

/**
 * Settles all jobs, publishes their events, then starts a worker. Measures the deliveries per second while it works
 * off the backlog.
 */
async function drain(setting: Setting, jobs: readonly string[], good: number) {
  const { sql, bus, receivers, say } = setting;
  for (let i = 0; i < jobs.length; i += 500) await settleJobs(sql, jobs.slice(i, i + 500));
  await sql`truncate outbox`;
  await sql`vacuum analyze`;
  while (!connected(bus)) await delay(50);
  await publish(bus, jobs);
  say(`webhooks: one worker delivers ${jobs.length}`);
  const worker = startWorker(setting);
  try {
    const deadline = Date.now() + 120_000;
    let cpu = 0;
    for (;;) {
      await delay(200);
      receivers.say('count');
      const { received } = JSON.parse(await receivers.line()) as { received: number };
      cpu = cpuSecondsOf(worker.pid) ?? Number.NaN;
      if (received >= good) break;
      if (Date.now() > deadline) throw new Error(`${received} of ${good} deliveries came in two minutes`);
    }
    receivers.say('report');
    const { first, received } = JSON.parse(await receivers.line()) as Report;
    const times = first.map(([, at]) => at).sort((a, b) => a - b);
    // The first tenth is not counted, because the process starts, opens connections and compiles code.
    const from = Math.floor(times.length / 10);
    const seconds = ((times.at(-1) as number) - (times[from] as number)) / 1000;
    return {
      perSecond: (times.length - from) / seconds,
      count: times.length,
      twice: received - times.length,
      cpu,
    };
  } finally {
    await worker.end();
  }
}

interface Report {
  readonly received: number;
  readonly first: [string, number][];
}

const connected = (bus: EventBus) => {
  try {
    bus.check();
    return true;
  } catch {
    return false;
  }
};

/** Settles jobs at a steady rate. Measures the time from the commit to the arrival of the first attempt, in ms. */
async function offer(setting: Setting, jobs: readonly string[], answers: (job: string) => boolean) {
  const { sql, bus, receivers, say } = setting;
  say(`webhooks: ${OFFERED} a second for ${SECONDS} s`);
  const worker = startWorker(setting);
  try {
    // The worker starts and opens its connections.
    await delay(3_000);
    const settled = new Map<string, number>();
    const work: Promise<void>[] = [];
    const began = performance.now();
    for (const [i, job] of jobs.entries()) {
      const wait = began + (i / OFFERED) * 1000 - performance.now();
      if (wait > 1) await delay(wait);
      work.push(
        settleJobs(sql, [job]).then(async () => {
          settled.set(job, performance.timeOrigin + performance.now());
          await bus.publish(jobEvent(job, 'succeeded', new Date()));
        }),
      );
    }
    await Promise.all(work);
    await delay(3_000);
    receivers.say('report');
    const { first } = JSON.parse(await receivers.line()) as Report;
    const arrivals = new Map(first);
    return jobs.filter(answers).map((job) => {
      const arrived = arrivals.get(job.replace('job-', 'dlv-'));
      if (arrived === undefined) throw new Error(`the delivery of ${job} has not come`);
      return arrived - (settled.get(job) as number);
    });
  } finally {
    await worker.end();
  }
}

/** Sends the same bodies to the receivers that answer, from the bare loop. Returns the best rate. */
async function bareLoop({ folder, say }: Setting, jobs: readonly string[], callbacks: readonly string[]) {
  const posts = jobs.map((job) => {
    const delivery_id = job.replace('job-', 'dlv-');
    const output_url = `https://media.example.com/api/v1/files/api/out-${job}?expires=1700000000&signature=${'0'.repeat(64)}`;
    const data = { id: job, status: 'succeeded', output_url, charged_usd: 0.04, error: null };
    return {
      url: callbacks[Number(job.slice(4)) % ENDPOINTS],
      body: JSON.stringify({ event: 'job.succeeded', sent_at: new Date().toISOString(), delivery_id, data }),
      headers: {
        'content-type': 'application/json',
        'user-agent': 'bench',
        'service-event': 'job.succeeded',
        'service-delivery': delivery_id,
        'service-signature': `t=1700000000,v1=${'0'.repeat(64)}`,
      },
    };
  });
  const file = join(folder, 'posts.json');
  await writeFile(file, JSON.stringify(posts));
  const rates: { atOnce: number; perSecond: number }[] = [];
  for (const atOnce of BARE_AT_ONCE) {
    say(`webhooks: the bare loop, ${atOnce} at once`);
    const child = start('bare-loop.ts', [file, `${atOnce}`]);
    rates.push({ atOnce, perSecond: posts.length / Number(await child.line()) });
    await child.end();
  }
  return rates.reduce((a, b) => (b.perSecond > a.perSecond ? b : a));
}

function report(
  ours: Awaited<ReturnType<typeof drain>>,
  latencies: readonly number[],
  bare: { atOnce: number; perSecond: number },
): Section {
  const ratio = ours.perSecond / bare.perSecond;
  return {
    title: 'Webhooks',
    rows: [
      {
        name: `deliveries by one worker, ${HANGING} of ${ENDPOINTS} endpoints hanging`,
        ours: `${figure(ours.perSecond)} /s`,
        peer: `${figure(bare.perSecond)} /s (bare undici, ${bare.atOnce} at once)`,
        ratio: ratio.toFixed(2),
        goal: `≥ ${figure(RATE_GOAL)} /s or ≥ ${RATIO_GOAL}`,
        met: ours.perSecond >= RATE_GOAL || ratio >= RATIO_GOAL ? 'met' : 'not met',
      },
      {
        name: '  CPU a delivery, worker',
        ours: `${figure((ours.cpu / ours.count) * 1e6)} µs`,
        peer: '',
        ratio: '',
        goal: '',
        met: '',
      },
      limitRow({
        name: `first attempt after the commit, p99, ${OFFERED}/s offered`,
        ours: quantile(latencies, 0.99),
        limit: P99_LIMIT_MS,
        unit: 'ms',
      }),
      {
        name: '  the same, p50 and most',
        ours: `${figure(quantile(latencies, 0.5))} ms, ${figure(quantile(latencies, 1))} ms`,
        peer: '',
        ratio: '',
        goal: '',
        met: '',
      },
    ],
    notes: [
      `${figure(BACKLOG)} deliveries, settled and announced before the worker started; counted are those to endpoints that answer (${ours.twice} came twice), the first tenth left out.`,
      'Each is claimed, signed, sent, and recorded with its attempt; the bare loop POSTs ready bodies to the endpoints that answer and does nothing else. Database, event stream and receivers share the cores.',
    ],
  };
}
