import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { silentLogger } from '@semblance/common/logging';
import { createSettler } from '@semblance/control-plane/jobs/settle';
import { createSubmit } from '@semblance/control-plane/jobs/submit';
import { openDatabase } from '@semblance/control-plane/storage/database';
import { migrate, readMigrations } from '@semblance/control-plane/storage/migrate';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import { createDatabase } from '@semblance/local/postgres';
import { openObjectStore } from '@semblance/objects/open';
import { dropDatabase } from '@semblance/testkit/servers/start';
import postgres from 'postgres';
import { findPgbench, pgbench } from '../jobs/pgbench.ts';
import {
  type BenchContext,
  figure,
  quantile,
  type Row,
  ratioRow,
  type Section,
  unmeasuredRow,
} from '../lib/section.ts';

const TITLE = 'Ledger: hold + capture';
const GOAL = 0.5;
/** Pairs under way at once. */
const AT_ONCE = 32;
const PEER_CLIENTS = [1, 4, 16];
const PAIRS = 2_000;
const WARM_UP = 300;
const CASES = [
  { name: `hold + capture, 8 accounts, ${AT_ONCE} at once`, accounts: 8 },
  { name: `hold + capture, one hot account, ${AT_ONCE} at once`, accounts: 1 },
];
const OUTPUT_KEY = 'api/bench-output';

export async function runLedgerBench({ stack, say }: BenchContext): Promise<Section> {
  return measureLedger({ adminUrl: stack.read().postgres_url, say });
}

/**
 * Measures pairs per second: a submit, which places a hold, and the settlement of its job, which captures the hold.
 * Ours runs the control plane's own functions; the peer is pgbench with the same two statements. Both use the same
 * server, schema and durability, with a fresh database each.
 */
export async function measureLedger(options: {
  adminUrl: string;
  say: (line: string) => void;
}): Promise<Section> {
  const { adminUrl, say } = options;
  const tool = await findPgbench();
  const rows: Row[] = [];
  const notes: string[] = [];
  for (const { name, accounts } of CASES) {
    if (!tool) {
      rows.push(unmeasuredRow(name, `≥ ${GOAL}`, 'no pgbench on PATH (Debian: apt install postgresql)'));
      continue;
    }
    say(`ledger: ${PAIRS} pairs, ${accounts} account(s)`);
    const ours = await inFreshDatabase(adminUrl, accounts, (url) => measureOurs(url, accounts));
    const peers: { clients: number; perSecond: number }[] = [];
    for (const clients of PEER_CLIENTS) {
      say(`ledger: pgbench, ${clients} clients, ${accounts} account(s)`);
      const perSecond = await inFreshDatabase(adminUrl, accounts, (url) =>
        measurePeer(tool, url, accounts, clients),
      );
      peers.push({ clients, perSecond });
    }
    const best = peers.reduce((a, b) => (b.perSecond > a.perSecond ? b : a));
    rows.push(
      ratioRow({
        name,
        ours: ours.perSecond,
        peer: best.perSecond,
        unit: '/s',
        peerName: `pgbench, ${best.clients} clients`,
        atLeast: GOAL,
      }),
    );
    notes.push(
      `${accounts} account(s): a pair took p50 ${figure(quantile(ours.milliseconds, 0.5))} ms, p99 ${figure(quantile(ours.milliseconds, 0.99))} ms; ` +
        `pgbench by clients ${peers.map(({ clients, perSecond }) => `${clients}: ${figure(perSecond)}/s`).join(', ')}.`,
    );
  }
  notes.push(
    'After every run of ours the books of every account were recomputed and agreed, and no hold was left.',
  );
  return { title: TITLE, rows, notes };
}

async function measureOurs(url: string, accounts: number) {
  const folder = await mkdtemp(join(tmpdir(), 'semblance-bench-ledger-'));
  const objects = openObjectStore({
    url: `file://${folder}`,
    signingKey: Buffer.alloc(32, 1),
    publicUrl: 'http://127.0.0.1:1',
  });
  await objects.put(OUTPUT_KEY, Readable.from([Buffer.from('x')]), { contentType: 'image/png' });
  const database = openDatabase({ url });
  const logger = silentLogger();
  const submit = createSubmit({ database, onCommitted: () => {}, onUnknown: () => {}, webhooks: false });
  const { settleFrom } = createSettler({ database, objects, logger, onSettled: () => {} });
  let next = 0;
  const milliseconds: number[] = [];
  async function pairs(count: number): Promise<void> {
    next = 0;
    const loop = async () => {
      for (let i = next++; i < count; i = next++) {
        const a = 1 + (i % accounts);
        const began = performance.now();
        const { jobId } = await submit({
          accountId: `bench-${a}`,
          capability: 'face-swap-image',
          inputs: { image: `api/image-${a}`, face: `api/face-${a}` },
          parameters: {},
          engineOptions: {},
          callbackUrl: undefined,
          idempotencyKey: undefined,
        });
        const outcome = await settleFrom(succeeded(jobId));
        if (outcome !== 'settled') throw new Error(`job ${jobId} was not settled: ${outcome}`);
        milliseconds.push(performance.now() - began);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, loop));
  }
  try {
    await pairs(WARM_UP);
    milliseconds.length = 0;
    const began = performance.now();
    await pairs(PAIRS);
    const perSecond = PAIRS / ((performance.now() - began) / 1000);
    await expectRightBooks(url, accounts, PAIRS + WARM_UP);
    return { perSecond, milliseconds };
  } finally {
    await database.close();
    await objects.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Returns the operator's report of a job that has made one image. */
function succeeded(name: string): RenderJob {
  const output = {
    key: OUTPUT_KEY,
    contentType: 'image/png',
    sizeBytes: 1,
    unit: 'image',
    milliUnits: 1_000,
  };
  return {
    metadata: { name },
    spec: { capability: 'face-swap-image' },
    status: { phase: 'Succeeded', output },
  } as RenderJob;
}

async function expectRightBooks(url: string, accounts: number, pairs: number): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  try {
    for (let a = 1; a <= accounts; a++) {
      const faults = await sql`select * from ledger_faults(${`bench-${a}`})`;
      if (faults.length > 0) throw new Error(`the books are wrong: ${JSON.stringify(faults)}`);
    }
    const [row] = await sql<{ captures: number; held: number }[]>`
      select (select count(*)::int from ledger_transfers where kind = 'capture') as captures,
             (select sum(held_micros)::int from account_balances) as held`;
    if (row?.captures !== pairs || row.held !== 0) throw new Error(`not settled: ${JSON.stringify(row)}`);
  } finally {
    await sql.end();
  }
}

async function measurePeer(tool: string, url: string, accounts: number, clients: number): Promise<number> {
  const folder = await mkdtemp(join(tmpdir(), 'semblance-pgbench-'));
  try {
    const script = join(folder, 'pair.sql');
    await writeFile(script, scriptFor(accounts));
    await pgbench({ tool, url, script, clients, transactions: WARM_UP });
    return await pgbench({ tool, url, script, clients, transactions: PAIRS });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/**
 * Returns a pgbench script with the statements of control-plane/jobs/submit.ts and settle.ts, each in its own
 * transaction.
 */
const scriptFor = (accounts: number) => `\\set a random(1, ${accounts})
select (result).job_id as job from submit_jobs(jsonb_build_array(jsonb_build_object(
  'job', 'job-' || gen_random_uuid(), 'account', 'bench-' || :a::text, 'capability', 'face-swap-image',
  'inputs', jsonb_build_array(
    jsonb_build_object('role', 'image', 'key', 'api/image-' || :a::text, 'kind', 'image'),
    jsonb_build_object('role', 'face', 'key', 'api/face-' || :a::text, 'kind', 'image')),
  'parameters', '{}'::jsonb, 'callback', null, 'idempotency_key', null, 'body_sha256', repeat('ab', 32)))) \\gset
select * from settle_job(:job, null, jsonb_build_object('key', '${OUTPUT_KEY}', 'content_type', 'image/png',
  'size_bytes', 1, 'sha256', null, 'engine', null, 'unit', 'image', 'milli_units', 1000), null, null, null, null);
`;

async function inFreshDatabase<T>(
  adminUrl: string,
  accounts: number,
  measure: (url: string) => Promise<T>,
): Promise<T> {
  const name = `bench_${randomUUID().slice(0, 8)}`;
  const url = await createDatabase(adminUrl, name);
  try {
    await migrate(url, await readMigrations());
    await seed(url, accounts);
    return await measure(url);
  } finally {
    await dropDatabase(adminUrl, name);
  }
}

async function seed(url: string, accounts: number): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  try {
    await sql`update settings set jobs_in_flight = 1000000`;
    await sql`update capabilities set has_engine = true, switched_on = true where name = 'face-swap-image'`;
    for (let a = 1; a <= accounts; a++) {
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
