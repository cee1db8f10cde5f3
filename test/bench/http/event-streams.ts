import { type ClientRequest, get, type IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '@semblance/testkit/stack/eventually';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import type { Account, Stack } from '@semblance/testkit/stack/stack';
import pg from 'pg';
import { type BenchContext, figure, limitRow, quantile, type Row, type Section } from '../lib/section.ts';
import { residentBytesOf } from './process-use.ts';

const JOBS = 20;
/** Most streams that one account may have open. */
const STREAMS_PER_JOB = 100;
const STREAMS = JOBS * STREAMS_PER_JOB;
const OPENED_AT_ONCE = 50;
const GOAL_KB = 20;
const WARM_UP_ROUNDS = 12;
const SETTLE_MS = 3_000;

/**
 * Measures 2,000 clients that follow waiting jobs: the resident memory that each costs the gateway, and how long it
 * takes until all of them know that their job has ended. Meanwhile the agent takes no work, so that nothing else
 * happens.
 */
export async function runEventStreamsBench({ stack, say }: BenchContext): Promise<Section> {
  await drain(stack, true);
  const open: Stream[] = [];
  try {
    say('event streams: warming up');
    const jobs = await Promise.all(Array.from({ length: JOBS }, () => waitingJob(stack)));
    // Each round opens a tenth of the streams, so that the gateway's code is compiled, as after some time of
    // service.
    for (let round = 0; round < WARM_UP_ROUNDS; round++) {
      const streams = await follow(jobs, STREAMS_PER_JOB / 10);
      for (const stream of streams) stream.close();
      await delay(100);
    }
    await delay(SETTLE_MS);

    const { services } = stack.read();
    const [gateway, controlPlane] = [services.gateway ?? 0, services['control-plane'] ?? 0];
    const idle = { gateway: residentBytesOf(gateway), controlPlane: residentBytesOf(controlPlane) };
    say(`event streams: opening ${STREAMS}`);
    const began = performance.now();
    open.push(...(await follow(jobs, STREAMS_PER_JOB)));
    const took = performance.now() - began;
    await delay(SETTLE_MS);
    const perStream = (pid: number, start = Number.NaN) =>
      ((residentBytesOf(pid) ?? Number.NaN) - start) / STREAMS / 1000;
    const growth = perStream(gateway, idle.gateway);
    const controlGrowth = perStream(controlPlane, idle.controlPlane);

    say('event streams: ending every job');
    await Promise.all(jobs.map(cancel));
    const delays = await delaysOf(stack, open);
    return {
      title: 'Following jobs',
      rows: [
        limitRow({
          name: `resident memory of the gateway a stream, ${figure(STREAMS)} open`,
          ours: growth,
          limit: GOAL_KB,
          unit: 'kB',
        }),
        told('resident memory of the control plane a stream', `${figure(controlGrowth)} kB`),
        told(`opening ${figure(STREAMS)} streams`, `${figure(took / 1000)} s`),
        told('from the end of a job to its clients, p50', `${figure(quantile(delays, 0.5))} ms`),
        told('from the end of a job to its clients, the last', `${figure(Math.max(...delays))} ms`),
      ],
      notes: [
        `${JOBS} jobs of as many accounts, ${STREAMS_PER_JOB} clients each, every client on a connection of its own. All jobs are cancelled at the same moment; times count from the transaction that ended a job.`,
        `Memory: growth from before the streams were opened to ${SETTLE_MS / 1000} s after, of services that have had ${STREAMS / 10} streams at a time, ${WARM_UP_ROUNDS} times, before. The clients run on the same cores.`,
      ],
    };
  } finally {
    for (const stream of open) stream.close();
    await drain(stack, false);
  }
}

interface WaitingJob {
  readonly account: Account;
  readonly id: string;
}

interface Stream {
  readonly jobId: string;
  /** Time of the event that ended the job, by performance.now(). */
  readonly ended: Promise<number>;
  close(): void;
}

async function waitingJob(stack: Stack): Promise<WaitingJob> {
  const account = await stack.newAccount();
  const { api } = account;
  const [image_key, face_key] = [await api.upload(ADMIRAL), await api.upload(ASTRONAUT)];
  return { account, id: (await api.swap({ image_key, face_key })).id };
}

/** Opens `each` streams of each job; resolves when all streams have received the present state. */
async function follow(jobs: readonly WaitingJob[], each: number): Promise<Stream[]> {
  const wanted = Array.from({ length: each }, () => jobs).flat();
  const streams: Stream[] = [];
  while (streams.length < wanted.length) {
    const next = wanted.slice(streams.length, streams.length + OPENED_AT_ONCE);
    streams.push(...(await Promise.all(next.map(openStream))));
  }
  return streams;
}

function openStream({ account, id }: WaitingJob): Promise<Stream> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${account.apiKey}` };
    const request: ClientRequest = get(
      `${account.api.baseUrl}/jobs/${id}/events`,
      { headers, agent: false },
      (response: IncomingMessage) => {
        if (response.statusCode !== 200) return reject(new Error(`answered ${response.statusCode}`));
        let text = '';
        let ended: (at: number) => void = () => {};
        const stream = {
          jobId: id,
          ended: new Promise<number>((done) => {
            ended = done;
          }),
          close: () => request.destroy(),
        };
        response.setEncoding('utf8');
        response.on('error', () => {});
        response.on('data', (part: string) => {
          text += part;
          if (text.includes('"status":"queued"')) resolve(stream);
          if (text.includes('"status":"failed"')) ended(performance.now());
          text = text.slice(-200);
        });
      },
    );
    request.on('error', reject);
  });
}

async function cancel({ account, id }: WaitingJob): Promise<void> {
  const answer = await account.api.request('POST', `/jobs/${id}/cancel`);
  if (answer.status !== 200) throw new Error(`the job could not be cancelled: ${answer.text}`);
}

/**
 * Returns, for each stream, the time from the commit that ended its job to its event, in ms. Both times are from
 * this machine's clock.
 */
async function delaysOf(stack: Stack, streams: readonly Stream[]): Promise<number[]> {
  const told = await Promise.all(streams.map(({ ended }) => ended));
  const database = new pg.Client({ connectionString: stack.read().postgres_url });
  await database.connect();
  try {
    const ids = [...new Set(streams.map(({ jobId }) => jobId))];
    const { rows } = await database.query<{ id: string; at: number }>(
      'select id, extract(epoch from settled_at)::float8 * 1000 as at from jobs where id = any($1)',
      [ids],
    );
    const settled = new Map(rows.map(({ id, at }) => [id, at]));
    return streams.map(
      ({ jobId }, i) => performance.timeOrigin + (told[i] ?? NaN) - (settled.get(jobId) ?? NaN),
    );
  } finally {
    await database.end();
  }
}

async function drain({ kubectl }: Stack, on: boolean): Promise<void> {
  const names = (await kubectl(['get', 'gpuagents', '-o', 'name'])).trim().split('\n');
  for (const name of names) {
    const [kind = '', agent = ''] = name.split('/');
    await kubectl.patch(kind, agent, { spec: { drain: on } });
    const expected = on ? 'Draining' : 'True';
    const path = `jsonpath={.status.conditions[?(@.type=="Ready")].${on ? 'reason' : 'status'}}`;
    await eventually(`the agent to ${on ? 'drain' : 'be ready'}`, async () =>
      (await kubectl(['get', kind, agent, '-o', path])) === expected ? true : undefined,
    );
  }
}

function told(name: string, ours: string): Row {
  return { name, ours, peer: '', ratio: '', goal: '', met: '' };
}
