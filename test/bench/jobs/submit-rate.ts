import { randomUUID } from 'node:crypto';
import { eventually } from '@semblance/testkit/stack/eventually';
import { faceless } from '@semblance/testkit/stack/media';
import type { Stack } from '@semblance/testkit/stack/stack';
import postgres from 'postgres';
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
import { findPgbench } from './pgbench.ts';
import { PEER_CLIENTS, type PeerRates, runPeer } from './submit-peer.ts';

/** Number of accounts that submit. With one account, both sides would mostly measure the lock on its balance. */
const ACCOUNTS = 8;
const SUBMITS = 2_000;
const TURNS = 3;
const CONNECTIONS = 32;
const GOAL = 0.4;
const TITLE = 'Submits per second';
const NAME = `POST /face-swap-image, ${CONNECTIONS} connections`;

/**
 * Measures submits per second over HTTP, with fresh Idempotency-Keys. The peer is pgbench, which runs the statement
 * of a submit on the same server. The agent takes no work, because renders are not the subject. Both take turns,
 * because the speed of a shared machine varies from minute to minute.
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
    say(`submits: ${SUBMITS} to warm up`);
    const first = await submitMany(stack, submitters, SUBMITS, CONNECTIONS);
    await untilQuiet(stack);
    const single = await submitMany(stack, submitters, 300, 1);
    await untilQuiet(stack);
    const turns: Turn[] = [];
    for (let turn = 1; turn <= TURNS; turn++) {
      say(`submits, turn ${turn} of ${TURNS}: ${SUBMITS} over ${CONNECTIONS} connections, then pgbench`);
      turns.push({
        ...(await takeTurn(stack, submitters)),
        peers: await runPeer({ stack, tool, accounts: ACCOUNTS, submits: SUBMITS }),
      });
    }
    return report({ first, single, turns });
  } finally {
    await drainAgents(stack, false);
  }
}

interface Rate {
  readonly perSecond: number;
  /** Latencies in ms. */
  readonly latencies: readonly number[];
}

interface OwnTurn {
  readonly ours: Rate;
  /** Submits per second, counted until the last one has its RenderJob. */
  readonly madePerSecond: number;
  /** Submits that had their RenderJob when the last one was answered. */
  readonly made: number;
  /** CPU seconds by process. */
  readonly cpu: ReadonlyMap<string, number>;
}

interface Turn extends OwnTurn {
  readonly peers: PeerRates;
}

async function takeTurn(stack: Stack, submitters: Submitter[]): Promise<OwnTurn> {
  const before = cpuOf(stack);
  const began = performance.now();
  const ours = await submitMany(stack, submitters, SUBMITS, CONNECTIONS);
  const after = cpuOf(stack);
  const made = SUBMITS - (await owedRenderJobs(stack));
  // The control plane still creates RenderJobs, and the peer must have the machine to itself.
  await untilQuiet(stack);
  const madePerSecond = (SUBMITS / (performance.now() - began)) * 1000;
  const cpu = new Map([...after].map(([name, at]) => [name, at - (before.get(name) ?? Number.NaN)]));
  return { ours, madePerSecond, made, cpu };
}

function report({ first, single, turns }: { first: Rate; single: Rate; turns: readonly Turn[] }): Section {
  const middle = (pick: (turn: Turn) => number) => quantile(turns.map(pick), 0.5);
  const listed = (pick: (turn: Turn) => number) => turns.map((turn) => figure(pick(turn))).join(', ');
  const ofClients = (clients: number) => middle(({ peers }) => peers.get(clients) ?? Number.NaN);
  const clients = PEER_CLIENTS.reduce((a, b) => (ofClients(b) > ofClients(a) ? b : a));
  const best = ofClients(clients);
  const latencies = turns.flatMap(({ ours }) => ours.latencies);
  const unjudged = { peer: '', goal: '', met: '' as const };
  return {
    title: TITLE,
    rows: [
      ratioRow({
        name: NAME,
        ours: middle(({ ours }) => ours.perSecond),
        peer: best,
        unit: '/s',
        peerName: `pgbench, ${clients} clients`,
        atLeast: GOAL,
      }),
      {
        ...unjudged,
        name: 'the same, 1 connection',
        ours: `${figure(single.perSecond)} /s`,
        peer: `${figure(ofClients(1))} /s (pgbench, 1 client)`,
        ratio: (single.perSecond / ofClients(1)).toFixed(2),
      },
      ...[
        { name: 'until the last has its RenderJob', perSecond: middle((turn) => turn.madePerSecond) },
        { name: `the first ${SUBMITS} before them`, perSecond: first.perSecond },
      ].map(({ name, perSecond }) => ({
        ...unjudged,
        name: `the same, ${name}`,
        ours: `${figure(perSecond)} /s`,
        ratio: (perSecond / best).toFixed(2),
      })),
      ...[...(turns[0]?.cpu.keys() ?? [])].map((name) => ({
        ...unjudged,
        name: `  CPU a submit, ${name}`,
        ours: `${figure((middle(({ cpu }) => cpu.get(name) ?? Number.NaN) / SUBMITS) * 1e6)} µs`,
        ratio: '',
      })),
    ],
    notes: [
      `${SUBMITS} submits a turn by ${ACCOUNTS} accounts, each with an Idempotency-Key of its own; all answered 200. ` +
        `Medians of ${turns.length} turns: ours ${listed(({ ours }) => ours.perSecond)}/s, the peer ${listed(({ peers }) => peers.get(clients) ?? Number.NaN)}/s. ` +
        `Answered in p50 ${figure(quantile(latencies, 0.5))} ms, p99 ${figure(quantile(latencies, 0.99))} ms.`,
      'Ours has HTTP, authentication, the rate limit, the hop to the control plane, and RenderJobs made beside it; the client runs on the same cores. ' +
        `When the last submit of a turn was answered, ${listed(({ made }) => made)} of ${SUBMITS} had their RenderJob; the others followed.`,
      `The peer is the best of pgbench with ${PEER_CLIENTS.join(', ')} clients (${PEER_CLIENTS.map((number) => `${number}: ${figure(ofClients(number))}/s`).join(', ')}): ` +
        'the statement of one submit in one transaction, prepared, on the same server with the same durability, in a database of its own with the same schema.',
    ],
  };
}

/** Returns the CPU seconds that each service, and this process as the client, has used. */
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
): Promise<Rate> {
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

/** Waits until every committed submit has its RenderJob, so that no leftover work disturbs the next measurement. */
async function untilQuiet(stack: Stack): Promise<void> {
  const empty = async () => ((await owedRenderJobs(stack)) === 0 ? true : undefined);
  await eventually('the outbox to be empty', empty, { withinMs: 180_000, everyMs: 250 });
}

/** Returns the number of submits without a RenderJob. */
async function owedRenderJobs(stack: Stack): Promise<number> {
  const sql = postgres(stack.read().postgres_url, { max: 1, onnotice: () => {} });
  try {
    const [row] = await sql<{ n: number }[]>`select count(*)::int n from outbox where kind = 'renderjob'`;
    return row?.n ?? 0;
  } finally {
    await sql.end();
  }
}
