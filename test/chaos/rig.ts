import { createHash, randomUUID } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createKubeClient, createReflector } from '@semblance/common/kube/index';
import { silentLogger } from '@semblance/common/logging';
import { natsOptions } from '@semblance/common/nats-url';
import { RENDERJOB_RESOURCE, type RenderJob } from '@semblance/crds/gen/renderjobs';
import type { Answer, Submitted } from '@semblance/testkit/stack/api';
import { eventually } from '@semblance/testkit/stack/eventually';
import { ADMIRAL, ASTRONAUT, longPortrait } from '@semblance/testkit/stack/media';
import { processTree } from '@semblance/testkit/stack/processes';
import { stackAt } from '@semblance/testkit/stack/stack';
import { type StackProcess, startStackProcess, WITHOUT_LIVE } from '@semblance/testkit/stack/stack-process';
import { connect } from 'nats';
import pg from 'pg';
import { expect } from 'vitest';

/** Balance for all jobs of a suite, in USD; the rest tells how many were charged. */
const BALANCE_USD = 1_000;
/** Charge of a Photo Swap, in micro-dollars. */
const CHARGE_MICROS = 40_000n;
const ENDINGS = ['jpg', 'png', 'webp'];
/** Longest time of a job, with faults of its stack, in ms. */
const JOB_WITHIN_MS = 100_000;

/** Length of a render. `long` renders take seconds, so that a test can act in the middle. */
export type Kind = 'short' | 'long';

/** Creates a stack to break, an account on it, and a watch of its jobs. */
export async function createRig() {
  const running = await startStackProcess({ env: WITHOUT_LIVE });
  try {
    return await createRigOn(running);
  } catch (cause) {
    const said = running.output();
    await running.close();
    throw new Error(`the stack that was to be broken could not be used; its last words:\n${said}`, { cause });
  }
}

async function createRigOn(running: StackProcess) {
  const stack = stackAt(running.file);
  const { stateDir } = running;
  const { namespace, kubeconfig, postgres_url: postgresUrl, nats_url: natsUrl } = stack.read();
  const { api, accountId } = await stack.newAccount({ balanceUsd: BALANCE_USD });
  const large = await longPortrait();
  const [short, long, face_key] = await Promise.all([
    api.upload(ASTRONAUT),
    api.upload(large),
    api.upload(ADMIRAL),
  ]);
  const images: Record<Kind, string> = { short, long };
  const kube = createKubeClient({ kubeconfigPath: kubeconfig, fieldManager: 'chaos' });
  const watchers = new Set<(job: RenderJob) => void>();
  const seen = (job: RenderJob) => {
    for (const watcher of watchers) watcher(job);
  };
  const reflector = createReflector({
    client: kube,
    resource: RENDERJOB_RESOURCE,
    namespace,
    logger: silentLogger(),
    handlers: { onAdd: seen, onUpdate: seen },
  });
  const watching = new AbortController();
  const watched = reflector.run(watching.signal);
  await reflector.waitForSync();
  const submitted: string[] = [];

  /** Submits once. Returns undefined when no answer came; throws on an answer that an outage does not explain. */
  async function trySubmit(key: string, kind: Kind = 'short'): Promise<string | undefined> {
    let answer: Answer;
    try {
      const headers = { 'Idempotency-Key': key };
      answer = await api.post('/face-swap-image', { image_key: images[kind], face_key }, headers);
    } catch {
      return undefined;
    }
    if (answer.status === 200) return (answer.body as Submitted).id;
    expectOutage(answer);
    return undefined;
  }

  /** Submits like a careful client: repeats the same submit until it is answered. */
  async function submit(kind: Kind = 'short', key: string = randomUUID()): Promise<string> {
    const id = await eventually('a submit to be taken', () => trySubmit(key, kind), {
      withinMs: JOB_WITHIN_MS,
      everyMs: 100,
    });
    if (!submitted.includes(id)) submitted.push(id);
    return id;
  }

  /** Resolves when the job's resource satisfies the condition, and calls `act` at that moment. */
  function reach(
    id: string,
    holds: (job: RenderJob) => boolean,
    act: () => void = () => {},
  ): Promise<RenderJob> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        watchers.delete(look);
        reject(new Error(`job ${id} did not come so far: ${JSON.stringify(reflector.get(id)?.status)}`));
      }, JOB_WITHIN_MS);
      const look = (job: RenderJob) => {
        if (job.metadata.name !== id || !holds(job)) return;
        watchers.delete(look);
        clearTimeout(timer);
        act();
        resolve(job);
      };
      watchers.add(look);
      const known = reflector.get(id);
      if (known) look(known);
    });
  }

  /**
   * Submits a job and calls `act` while it is in one of the phases. On a slow machine the job may already have
   * passed them; then another job is submitted.
   */
  async function submitTo(
    phases: readonly string[],
    kind: Kind,
    act: () => void = () => {},
  ): Promise<string> {
    for (let left = 5; left > 0; left--) {
      const id = await submit(kind);
      let caught = false;
      await reach(
        id,
        (job) => {
          caught = atPhase(...phases)(job);
          return caught || atPhase('Succeeded', 'Failed')(job);
        },
        () => caught && act(),
      );
      if (caught) return id;
    }
    throw new Error(`no job was seen ${phases.join(' or ')}`);
  }

  const objectPath = (key: string) => {
    const hash = createHash('sha256').update(key).digest('hex');
    return join(stateDir, 'objects', 'objects', hash.slice(0, 2), hash);
  };
  /** Returns the keys under which the store holds an output of one of the job's attempts. */
  const outputsOf = (uid: string, attempts: number) =>
    Array.from({ length: attempts + 2 }, (_, attempt) =>
      ENDINGS.map((ending) => `out/${uid}/${attempt}.${ending}`),
    )
      .flat()
      .filter((key) => existsSync(objectPath(key)));

  /** Resolves when the job's output is in the store, and calls `act` at that moment. */
  async function reachStored(id: string, act: () => void): Promise<void> {
    const job = await reach(id, ({ status }) => status?.phase === 'Running' || status?.phase === 'Succeeded');
    const uid = job.metadata.uid ?? '';
    const deadline = Date.now() + JOB_WITHIN_MS;
    while (outputsOf(uid, job.status?.attempt ?? 1).length === 0) {
      if (Date.now() > deadline) throw new Error(`job ${id} stored nothing`);
      await delay(2);
    }
    act();
  }

  /** Kills a service with SIGKILL. `back` resolves when another process has replaced it. */
  function kill(service: string): { back: Promise<void> } {
    const pid = stack.read().services[service] as number;
    try {
      process.kill(pid, 'SIGKILL');
    } catch (error) {
      // The process is already gone: it ended by itself after the end of another service.
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
    const back = eventually(
      `${service} to be started again`,
      () => (stack.read().services[service] === pid ? undefined : true),
      { withinMs: 100_000, everyMs: 50 },
    );
    return { back: back.then(() => {}) };
  }

  /** Stops all processes of a service, as if its machine did not answer. The returned function resumes them. */
  function freeze(service: string): () => void {
    const pids = processTree(stack.read().services[service] as number).map(({ pid }) => pid);
    for (const pid of pids) process.kill(pid, 'SIGSTOP');
    return () => {
      for (const pid of pids.toReversed()) process.kill(pid, 'SIGCONT');
    };
  }

  /** Kills services, and stops the process that would restart them. The returned function resumes that process. */
  function takeDown(services: readonly string[]): () => void {
    const pids = services.map((service) => stack.read().services[service] as number);
    process.kill(running.pid, 'SIGSTOP');
    for (const pid of pids) process.kill(pid, 'SIGKILL');
    return () => void process.kill(running.pid, 'SIGCONT');
  }

  async function query<R extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<R[]> {
    const client = new pg.Client({ connectionString: postgresUrl });
    await client.connect();
    try {
      return (await client.query<R>(text, values)).rows;
    } finally {
      await client.end();
    }
  }

  /** Checks that the job succeeded, was charged once, and has one output. */
  async function expectDone(id: string): Promise<void> {
    const job = await api.finished(id, JOB_WITHIN_MS);
    expect(job).toMatchObject({ id, status: 'succeeded', charged_usd: 0.04, error: null });
    const resource = await eventually('its resource', () =>
      kube.find(RENDERJOB_RESOURCE, { namespace, name: id }),
    );
    expect(resource.status).toMatchObject({ phase: 'Succeeded' });
    // The output of an attempt that lost is removed right after the end of the job.
    await eventually('one output to be left', () => {
      const outputs = outputsOf(resource.metadata.uid ?? '', resource.status?.attempt ?? 0);
      if (outputs.length !== 1) throw new Error(`there are ${outputs.join(' and ')}`);
      expect(outputs).toEqual([resource.status?.output?.key]);
      return true;
    });
    const link = await eventually('its output', async () => {
      const answer = await fetch(job.output_url ?? '');
      if (answer.status !== 200) throw new Error(`answered ${answer.status}`);
      return (await answer.arrayBuffer()).byteLength;
    });
    expect(link).toBe(resource.status?.output?.sizeBytes);
  }

  /**
   * Checks books, streams and disks after all tests: each job is counted once, no money is held, and no file is
   * left.
   */
  async function expectCleanBooks(): Promise<void> {
    const rows = await eventually('the outbox to be empty', async () => {
      const waiting = await query('select kind, job_id, last_error from outbox');
      if (waiting.length > 0) throw new Error(JSON.stringify(waiting));
      return query<{ job_id: string; kind: string; count: string; micros: string }>(
        `select job_id, kind, count(*), sum(amount_micros) micros from ledger_transfers
         where account_id = $1 and job_id is not null group by job_id, kind`,
        [accountId],
      );
    });
    const counts = new Map(rows.map(({ job_id, kind, count }) => [`${job_id} ${kind}`, Number(count)]));
    for (const id of submitted) {
      expect(counts.get(`${id} hold`), `${id} hold`).toBe(1);
      expect(counts.get(`${id} capture`), `${id} capture`).toBe(1);
      expect(counts.get(`${id} release`), `${id} release`).toBeUndefined();
    }
    const jobs = await query<{ id: string; status: string; charged_micros: string }>(
      'select id, status, charged_micros from jobs where account_id = $1 order by id',
      [accountId],
    );
    expect(jobs).toEqual(
      submitted.toSorted().map((id) => ({ id, status: 'succeeded', charged_micros: String(CHARGE_MICROS) })),
    );
    const spent = (Number(CHARGE_MICROS) * submitted.length) / 1e6;
    const shown = await stack.admin('account', 'show', { account: accountId });
    expect(shown).toMatchObject({ ledger_ok: true, holds: 0, reserved: 0 });
    expect(shown.balance).toBeCloseTo(BALANCE_USD - spent, 6);
    await expectEvents();
    await expectNoFiles();
  }

  async function expectEvents(): Promise<void> {
    const connection = await connect(natsOptions(natsUrl));
    try {
      const manager = await connection.jetstreamManager();
      const subjects: Record<string, number> = {};
      for await (const stream of manager.streams.list()) {
        const info = await manager.streams.info(stream.config.name, { subjects_filter: 'semblance.jobs.>' });
        Object.assign(subjects, info.state.subjects);
      }
      for (const id of submitted) {
        expect(subjects[`semblance.jobs.${id}.succeeded`], `${id} succeeded`).toBeGreaterThanOrEqual(1);
        expect(subjects[`semblance.jobs.${id}.failed`], `${id} failed`).toBeUndefined();
      }
    } finally {
      await connection.close();
    }
  }

  /** Checks that no files of attempts, no folder of a former agent process and no half-written objects remain. */
  async function expectNoFiles(): Promise<void> {
    await eventually(
      'no temporary file to be left',
      () => {
        const runs = readdirSync(join(stateDir, 'agent'));
        const left = [
          ...runs.slice(1),
          ...runs.flatMap((run) => readdirSync(join(stateDir, 'agent', run, 'attempts'))),
          ...readdirSync(join(stateDir, 'objects', 'tmp')),
        ];
        if (left.length > 0) throw new Error(left.join(' '));
        return true;
      },
      { withinMs: 60_000 },
    );
  }

  return {
    stack,
    running,
    api,
    accountId,
    submit,
    trySubmit,
    submitted,
    reach,
    submitTo,
    reachStored,
    phaseOf: (id: string) => reflector.get(id)?.status?.phase,
    kill,
    freeze,
    takeDown,
    expectDone,
    expectCleanBooks,
    upload: () => api.upload(ADMIRAL),
    async close() {
      watching.abort();
      await watched;
      await kube.close();
      await running.close();
    },
  };
}

export type Rig = Awaited<ReturnType<typeof createRig>>;

/** Checks the only answer allowed during an outage: a failure of the service, in the usual envelope. */
export function expectOutage(answer: Answer): void {
  expect([500, 502], `${answer.status} ${answer.text}`).toContain(answer.status);
  expect(answer.body).toMatchObject({ error: { code: 'internal_error', message: expect.any(String) } });
}

export const atPhase =
  (...phases: string[]) =>
  (job: RenderJob) =>
    phases.includes(job.status?.phase ?? '');
