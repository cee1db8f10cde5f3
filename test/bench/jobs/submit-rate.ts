import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import postgres from 'postgres';
import { migrate } from '../../../control-plane/storage/migrate.ts';
import { createDatabase, dropDatabase } from '../../../local/postgres.ts';
import { eventually } from '../../support/eventually.ts';
import { faceless } from '../../support/media.ts';
import type { Stack } from '../../support/stack.ts';
import { type Connection, openConnection } from '../http/answers.ts';
import { cpuSecondsOf } from '../http/process-use.ts';
import { drainAgents } from '../lib/drain-agents.ts';
import {
  type BenchContext,
  figure,
  quantile,
  ratioRow,
  type Section,
  unmeasuredRow,
} from '../lib/section.ts';
import { findPgbench, pgbench } from './pgbench.ts';

/** Accounts that submit: with one alone, both sides would mostly measure the lock on its balance. */
const ACCOUNTS = 8;
const SUBMITS = 2_000;
const CONNECTIONS = 32;
const PEER_CLIENTS = [1, 4, 16, 32];
const GOAL = 0.4;
const TITLE = 'Submits per second';
const NAME = `POST /face-swap-image, ${CONNECTIONS} connections`;

/**
 * Submits a second over HTTP, with fresh Idempotency-Keys, against the statement that a submit runs, called directly by
 * pgbench on the same server. The agent takes no work meanwhile: what a render costs is not the subject here.
 */
export async function runSubmitRateBench({ stack, say }: BenchContext): Promise<Section> {
  const tool = await findPgbench();
  if (!tool) {
    const why = 'no pgbench on PATH (Debian: apt install postgresql)';
    return { title: TITLE, rows: [unmeasuredRow(NAME, `≥ ${GOAL}`, why)] };
  }
  await drainAgents(stack);
  try {
    const submitters = await prepareAccounts(stack);
    say(`submits: 300 to warm up, then ${SUBMITS} over ${CONNECTIONS} connections`);
    await submitMany(stack, submitters, 300, CONNECTIONS);
    const single = await submitMany(stack, submitters, 300, 1);
    await untilQuiet(stack);
    const before = cpuOf(stack);
    const began = performance.now();
    const ours = await submitMany(stack, submitters, SUBMITS, CONNECTIONS);
    const after = cpuOf(stack);
    const owed = await owedRenderJobs(stack);

    // The control plane still makes resources of what was submitted; the peer shall have the machine to itself.
    await untilQuiet(stack);
    const madePerSecond = (SUBMITS / (performance.now() - began)) * 1000;
    const peers = await runPeer(stack, tool, say);
    const best = peers.reduce((a, b) => (b.perSecond > a.perSecond ? b : a));
    const alone = peers.find(({ clients }) => clients === 1) ?? best;
    return {
      title: TITLE,
      rows: [
        ratioRow({
          name: NAME,
          ours: ours.perSecond,
          peer: best.perSecond,
          unit: '/s',
          peerName: `pgbench, ${best.clients} clients`,
          atLeast: GOAL,
        }),
        {
          name: 'the same, 1 connection',
          ours: `${figure(single.perSecond)} /s`,
          peer: `${figure(alone.perSecond)} /s (pgbench, 1 client)`,
          ratio: (single.perSecond / alone.perSecond).toFixed(2),
          goal: '',
          met: '',
        },
        {
          name: 'the same, until the last has its RenderJob',
          ours: `${figure(madePerSecond)} /s`,
          peer: '',
          ratio: (madePerSecond / best.perSecond).toFixed(2),
          goal: '',
          met: '' as const,
        },
        ...[...after].map(([name, seconds]) => ({
          name: `  CPU a submit, ${name}`,
          ours: `${figure(((seconds - (before.get(name) ?? Number.NaN)) / SUBMITS) * 1e6)} µs`,
          peer: '',
          ratio: '',
          goal: '',
          met: '' as const,
        })),
      ],
      notes: [
        `${SUBMITS} submits by ${ACCOUNTS} accounts, each with an Idempotency-Key of its own; all answered 200. ` +
          `Answered in p50 ${figure(quantile(ours.latencies, 0.5))} ms, p99 ${figure(quantile(ours.latencies, 0.99))} ms.`,
        'Ours has HTTP, authentication, the rate limit, the hop to the control plane, and RenderJobs made beside it; the client runs on the same cores. ' +
          `When the last submit was answered, ${SUBMITS - owed} of ${SUBMITS} had their RenderJob; the others followed.`,
        `The peer is the best of pgbench with ${PEER_CLIENTS.join(', ')} clients (${peers.map(({ clients, perSecond }) => `${clients}: ${figure(perSecond)}/s`).join(', ')}): ` +
          'the statement of one submit in one transaction, prepared, on the same server with the same durability, in a database of its own with the same schema.',
      ],
    };
  } finally {
    await drainAgents(stack, false);
  }
}

/** CPU seconds each service, and this process as the client, has used so far. */
function cpuOf(stack: Stack): Map<string, number> {
  const used = new Map<string, number>();
  for (const [name, pid] of Object.entries(stack.read().services)) {
    used.set(name, cpuSecondsOf(pid) ?? Number.NaN);
  }
  const { user, system } = process.cpuUsage();
  return used.set('client', (user + system) / 1e6);
}

interface Submitter {
  readonly apiKey: string;
  readonly image_key: string;
  readonly face_key: string;
}

async function prepareAccounts(stack: Stack): Promise<Submitter[]> {
  const picture = await faceless('jpeg', 64, 64);
  const made: Submitter[] = [];
  const sql = postgres(stack.read().postgres_url, { max: 1, onnotice: () => {} });
  try {
    for (let i = 0; i < ACCOUNTS; i++) {
      const { accountId, api, apiKey } = await stack.newAccount({ balanceUsd: 100_000 });
      const [image_key, face_key] = await Promise.all([api.upload(picture), api.upload(picture)]);
      await sql`update accounts set jobs_in_flight_limit = 1000000 where id = ${accountId}`;
      made.push({ apiKey, image_key, face_key });
    }
    await sql`update settings set jobs_in_flight = 1000000`;
  } finally {
    await sql.end();
  }
  return made;
}

async function submitMany(
  stack: Stack,
  submitters: Submitter[],
  count: number,
  connections: number,
): Promise<{ perSecond: number; latencies: number[] }> {
  const base = new URL(stack.read().base_url);
  const heads = submitters.map(({ apiKey, ...body }) => {
    const text = JSON.stringify(body);
    const head = `POST ${base.pathname}/face-swap-image HTTP/1.1\r\nhost: ${base.host}\r\nauthorization: Bearer ${apiKey}\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\nidempotency-key: `;
    return { head, text };
  });
  const opened = await Promise.all(Array.from({ length: connections }, () => openConnection(base.origin)));
  const latencies: number[] = [];
  let next = 0;
  const worker = async (connection: Connection) => {
    for (let i = next++; i < count; i = next++) {
      const { head, text } = heads[i % heads.length] as (typeof heads)[number];
      const sentAt = performance.now();
      await connection.ask(`${head}${randomUUID()}\r\n\r\n${text}`);
      latencies.push(performance.now() - sentAt);
    }
  };
  const startedAt = performance.now();
  try {
    await Promise.all(opened.map(worker));
    return { perSecond: (count / (performance.now() - startedAt)) * 1000, latencies };
  } finally {
    for (const connection of opened) connection.close();
  }
}

/** Waits until every committed submit has its RenderJob, so that nothing of it runs on beside what follows. */
async function untilQuiet(stack: Stack): Promise<void> {
  const empty = async () => ((await owedRenderJobs(stack)) === 0 ? true : undefined);
  await eventually('the outbox to be empty', empty, { withinMs: 180_000, everyMs: 250 });
}

/** Submits that do not have their RenderJob yet. */
async function owedRenderJobs(stack: Stack): Promise<number> {
  const sql = postgres(stack.read().postgres_url, { max: 1, onnotice: () => {} });
  try {
    const [row] = await sql<{ n: number }[]>`select count(*)::int n from outbox where kind = 'renderjob'`;
    return row?.n ?? 0;
  } finally {
    await sql.end();
  }
}

/** Each number of clients begins with a fresh database: what is in flight already makes every further submit dearer. */
async function runPeer(stack: Stack, tool: string, say: (line: string) => void) {
  const adminUrl = stack.read().postgres_url;
  const folder = await mkdtemp(join(tmpdir(), 'semblance-pgbench-'));
  const script = join(folder, 'submit.sql');
  const results: { clients: number; perSecond: number }[] = [];
  try {
    await writeFile(script, SCRIPT);
    for (const clients of PEER_CLIENTS) {
      say(`pgbench: ${SUBMITS} submits by ${clients} clients`);
      const name = `bench_${randomUUID().slice(0, 8)}`;
      const url = await createDatabase(adminUrl, name);
      try {
        await migrate(url);
        await seed(url);
        await pgbench({ tool, url, script, clients, transactions: 600 });
        const perSecond = await pgbench({ tool, url, script, clients, transactions: SUBMITS });
        results.push({ clients, perSecond });
      } finally {
        await dropDatabase(adminUrl, name);
      }
    }
    return results;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The statement of control-plane/jobs/submit.ts, for one submit. */
const SCRIPT = `\\set a random(1, ${ACCOUNTS})
select place, (result).* from submit_jobs(jsonb_build_array(jsonb_build_object(
  'job', 'job-' || gen_random_uuid(), 'account', 'bench-' || :a::text, 'capability', 'face-swap-image',
  'inputs', jsonb_build_array(
    jsonb_build_object('role', 'image', 'key', 'api/image-' || :a::text, 'kind', 'image'),
    jsonb_build_object('role', 'face', 'key', 'api/face-' || :a::text, 'kind', 'image')),
  'parameters', '{}'::jsonb, 'callback', null, 'idempotency_key', gen_random_uuid()::text,
  'body_sha256', repeat('ab', 32)))) order by place;
`;

/** The accounts, money and uploads that the script names, and ceilings that it does not reach. */
async function seed(url: string): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  try {
    await sql`update settings set jobs_in_flight = 1000000`;
    for (let a = 1; a <= ACCOUNTS; a++) {
      const id = `bench-${a}`;
      await sql`insert into accounts (id, name, jobs_in_flight_limit) values (${id}, 'bench', 1000000)`;
      await sql`insert into account_balances (account_id) values (${id})`;
      await sql`
        insert into ledger_transfers (account_id, kind, debit, credit, amount_micros)
        values (${id}, 'top_up', 'funding', 'available', 100000000000)`;
      for (const role of ['image', 'face']) {
        await sql`
          insert into uploads (file_key, account_id, completed_at, kind, content_type, size_bytes, sha256)
          values (${`api/${role}-${a}`}, ${id}, now(), 'image', 'image/jpeg', 1, ${Buffer.alloc(32)})`;
      }
    }
  } finally {
    await sql.end();
  }
}
