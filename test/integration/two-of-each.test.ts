/**
 * Runs two processes of each service, on one Postgres, one NATS and one Kubernetes API. Jobs come through both
 * gateways, while one process of each service is asked to end and the other is killed.
 */
import { randomUUID } from 'node:crypto';
import { createKubeClient, LEASE_RESOURCE } from '@semblance/common/kube/index';
import { RENDERJOB_RESOURCE } from '@semblance/crds/gen/renderjobs';
import { watchLag } from '@semblance/testkit/common/lag';
import { connectTo, makeAccount } from '@semblance/testkit/control-plane/control-plane';
import type { Ledger } from '@semblance/testkit/operator/fake-agent';
import { overlaps } from '@semblance/testkit/operator/overlaps';
import { type Api, apiOf, type Submitted } from '@semblance/testkit/stack/api';
import { eventually } from '@semblance/testkit/stack/eventually';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { type Receiver, startReceiver } from '@semblance/testkit/stack/receiver';
import { type Replica, type Replicas, SERVICES, startReplicas } from '@semblance/testkit/stack/replicas';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';

/** Longest time of a job, with faults, in ms. */
const JOB_WITHIN_MS = 100_000;
const CHARGE_MICROS = 40_000n;

let replicas: Replicas;
let receiver: Receiver;
let kube: ReturnType<typeof createKubeClient>;
let apis: [Api, Api];
let accountId: string;
let inputs: { image_key: string; face_key: string };
const submitted: string[] = [];
const done: string[] = [];
let refused = 0;

beforeAll(async () => {
  [replicas, receiver] = await Promise.all([startReplicas(), startReceiver(200)]);
  kube = createKubeClient({ kubeconfigPath: replicas.kube.kubeconfigPath, fieldManager: 'test' });
  const client = connectTo(replicas.controlPort, replicas.adminToken);
  const account = await makeAccount({ client }, 100);
  client.control.close();
  client.admin.close();
  accountId = account.accountId;
  const through = ({ port }: Replica) =>
    apiOf({ baseUrl: `http://127.0.0.1:${port}/api/v1`, apiKey: account.apiKey });
  apis = [through(replicas.pairs.gateway[0]), through(replicas.pairs.gateway[1])];
  inputs = { image_key: await apis[0].upload(ASTRONAUT), face_key: await apis[1].upload(ADMIRAL) };
}, 200_000);

afterAll(async () => {
  await kube?.close();
  await replicas?.close();
  await receiver?.close();
}, 100_000);

let turn = 0;
/** Asks one gateway, and then the other if there was no answer or an outage, like a careful client. */
async function ask<T>(what: string, question: (api: Api) => Promise<T | undefined>): Promise<T> {
  return eventually(
    what,
    async () => {
      try {
        return await question(apis[turn++ % 2] as Api);
      } catch (error) {
        refused++;
        throw error;
      }
    },
    { withinMs: JOB_WITHIN_MS, everyMs: 50 },
  );
}

async function submit(): Promise<string> {
  const headers = { 'Idempotency-Key': randomUUID() };
  const body = { ...inputs, callback_url: receiver.url };
  const { id } = await ask(
    'a submit to be taken',
    async (api): Promise<Submitted> => api.swap(body, headers),
  );
  submitted.push(id);
  return id;
}

async function finished(id: string): Promise<void> {
  const job = await ask(`job ${id} to finish`, async (api) => {
    const found = await api.job(id);
    return found.status === 'succeeded' || found.status === 'failed' ? found : undefined;
  });
  expect(job).toMatchObject({ id, status: 'succeeded', charged_usd: 0.04, error: null });
  done.push(id);
}

/** Runs jobs one after the other until aborted. */
async function work(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) await finished(await submit());
}

/** Reads from the agents' logs when they began attempts, and when those had ended. */
function attempts(): { ledger: Ledger; names: Map<string, Date> } {
  const ledger: Ledger = { entries: [] };
  const names = new Map<string, Date>();
  for (const { name: agent, lines, ends } of replicas.pairs['gpu-agent']) {
    for (const [at, line] of lines.entries()) {
      if (line.msg !== 'attempt begun') continue;
      const { jobUid, attempt, job, pid } = line;
      const ended = lines
        .slice(at)
        .find(
          (other) => other.msg === 'attempt ended' && other.jobUid === jobUid && other.attempt === attempt,
        );
      const to = ended ? Date.parse(ended.time) : (ends.get(pid)?.getTime() ?? Number.POSITIVE_INFINITY);
      const from = Date.parse(line.time);
      ledger.entries.push({ uid: jobUid as string, attempt: attempt as number, agent, from, to });
      if (!names.has(job as string)) names.set(job as string, new Date(from));
    }
  }
  return { ledger, names };
}

const lease = async () =>
  (await kube.find(LEASE_RESOURCE, { namespace: replicas.kube.namespace, name: 'semblance-operator' }))?.spec;

/** Returns the process of a pair whose loss has the larger effect: of operators the leader. */
async function victimOf(pair: readonly [Replica, Replica], index: number): Promise<Replica> {
  if (!pair[0].name.startsWith('operator')) return pair[index] as Replica;
  const holder = (await lease())?.holderIdentity;
  return pair.find(({ name }) => name === holder) as Replica;
}

test('every job ends once, is charged once and runs once at a time, whichever of two is asked to end or killed', async () => {
  const stop = new AbortController();
  const working = work(stop.signal);
  // The error is reported where `working` is awaited.
  working.catch(() => {});
  const took: Record<string, number> = {};
  const probes: string[] = [];
  const back = new Map<string, Promise<void>>();
  for (const [index, signal] of (['SIGTERM', 'SIGKILL'] as const).entries()) {
    for (const service of SERVICES) {
      // The service must first have two processes again.
      await back.get(service);
      const victim = await victimOf(replicas.pairs[service], index);
      // Measures the delay of trivial calls to the servers that the work passes through, because a busy machine
      // delays both alike.
      const lag = watchLag(() => Promise.all([lease(), ...apis.map((api) => api.get('/pricing'))]));
      const at = Date.now();
      const ending = victim.end(signal);
      const probe = await submit();
      const begun = await eventually('work to begin', () => attempts().names.get(probe), {
        withinMs: JOB_WITHIN_MS,
        everyMs: 20,
      });
      took[`${service} ${signal}`] = Math.round(begun.getTime() - at - (await lag.stop()));
      probes.push(probe);
      // The remaining process of a killed pair must suffice. A killed agent is started again, because only then is
      // it known that its work is over.
      if (signal === 'SIGKILL' && service !== 'gpu-agent') continue;
      const started = ending.then(() => victim.start());
      started.catch(() => {});
      back.set(service, started);
    }
  }
  await Promise.all(back.values());
  await Promise.all(probes.map(finished));
  stop.abort();
  await working;
  // The promised times are tested at the operator alone (operator/failover.test.ts): here renders use every core.
  console.log('milliseconds from a signal until new work began:', took, { jobs: submitted.length, refused });

  const { ledger } = attempts();
  expect(overlaps(ledger)).toEqual([]);
  const begun = ledger.entries.map(({ uid, attempt }) => `${uid}/${attempt}`);
  expect(new Set(begun).size, 'no attempt begins twice').toBe(begun.length);
  expect(new Set(ledger.entries.map(({ agent }) => agent)).size, 'both agents had work').toBe(2);
  await expectBooks();
  await expectWebhooks();
}, 300_000);

async function expectBooks(): Promise<void> {
  const jobs = [...new Set(submitted)];
  expect(done.toSorted()).toEqual(jobs.toSorted());
  const client = new pg.Client({ connectionString: replicas.pg.url });
  await client.connect();
  try {
    const rows = await eventually('the outbox to be empty', async () => {
      const owed = await client.query('select kind, job_id, last_error from outbox');
      if (owed.rows.length > 0) throw new Error(JSON.stringify(owed.rows));
      return (
        await client.query(
          `select count(*)::int as entries, count(distinct job_id)::int as jobs, sum(amount_micros)::bigint as micros
           from ledger_transfers where account_id = $1 and kind = 'capture'`,
          [accountId],
        )
      ).rows;
    });
    const micros = String(CHARGE_MICROS * BigInt(jobs.length));
    expect(rows).toEqual([{ entries: jobs.length, jobs: jobs.length, micros }]);
    expect((await client.query('select * from ledger_faults($1)', [accountId])).rows).toEqual([]);
    const own = await client.query(
      `select count(*)::int as count, coalesce(sum(held_micros), 0)::int as held from jobs j
       join account_balances b using (account_id) where account_id = $1`,
      [accountId],
    );
    expect(own.rows).toEqual([{ count: jobs.length, held: 0 }]);
  } finally {
    await client.end();
  }
  const resources = await kube.list(RENDERJOB_RESOURCE, { namespace: replicas.kube.namespace });
  expect(resources.items.filter(({ status }) => status?.phase !== 'Succeeded')).toEqual([]);
}

/** Checks that each job had one webhook, and that all its repeats were the same. */
async function expectWebhooks(): Promise<void> {
  const jobs = new Set(submitted);
  const idsOf = () =>
    Map.groupBy(
      receiver.received,
      ({ body }) => (JSON.parse(body.toString()) as { data: { id: string } }).data.id,
    );
  await eventually('every webhook', () => idsOf().size >= jobs.size || undefined);
  const came = idsOf();
  expect([...came.keys()].toSorted()).toEqual([...jobs].toSorted());
  for (const [id, calls] of came) {
    expect(new Set(calls.map(({ headers }) => headers['service-delivery'])).size, id).toBe(1);
    expect(new Set(calls.map(({ headers }) => headers['service-event'])).size, id).toBe(1);
  }
}
