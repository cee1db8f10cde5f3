/**
 * Test of `helm test`: swaps a face between two shipped portraits, as an integrator would, and checks the output.
 * Without SEMBLANCE_API_KEY it creates an account with the admin command.
 */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { loadConfig, origin } from '@semblance/common/config';
import { describeError } from '@semblance/common/errors';
import { z } from 'zod';
import { expectSwapped } from './changed-pixels.ts';
import { decodePng } from './png.ts';

const ROOT = join(import.meta.dirname, '..');
const BASE = 'astronaut.png';
const FACE = 'grace_hopper.jpg';
/** Time limit of the whole test, in ms, because the first agent may still be starting. */
const LIMIT_MS = 240_000;
const RETRY_MS = 2_000;

const signal = AbortSignal.timeout(LIMIT_MS);
const say = (line: string) => void process.stdout.write(`${line}\n`);

type Job = {
  id: string;
  status: string;
  output_url: string | null;
  error: { code: string; message: string } | null;
};

async function main(): Promise<void> {
  const config = loadConfig({
    SEMBLANCE_BASE_URL: z.url({ protocol: /^https?$/ }),
    SEMBLANCE_PUBLIC_URL: origin,
    SEMBLANCE_API_KEY: z.string().optional(),
  });
  const api = config.SEMBLANCE_BASE_URL;
  const authorization = `Bearer ${config.SEMBLANCE_API_KEY ?? (await makeAccount())}`;

  const request = async <T>(what: string, url: string, init: RequestInit = {}): Promise<T> => {
    const response = await untilServed(what, () =>
      fetch(url, { ...init, headers: { authorization, ...init.headers }, signal }),
    );
    return (await response.json()) as T;
  };
  const upload = async (name: string, type: string) => {
    const form = new FormData();
    form.append('file', new Blob([await readFile(join(ROOT, 'media', name))], { type }), name);
    return (
      await request<{ file_key: string }>(`upload of ${name}`, `${api}/uploads`, {
        method: 'POST',
        body: form,
      })
    ).file_key;
  };

  const [image_key, face_key] = [await upload(BASE, 'image/png'), await upload(FACE, 'image/jpeg')];
  say(`uploaded ${BASE} and ${FACE}`);
  const submitted = await request<{ id: string; status_url: string }>('submit', `${api}/face-swap-image`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': randomUUID() },
    body: JSON.stringify({ image_key, face_key }),
  });
  say(`submitted ${submitted.id}`);
  const job = await ended(() => request<Job>('job', new URL(submitted.status_url, api).href));
  if (job.status !== 'succeeded' || !job.output_url)
    throw new Error(`the job ended as ${job.status}: ${job.error?.message ?? 'without an output'}`);

  // The gateway's public address may be unreachable from here, and the link's signature covers only its path.
  const link = new URL(job.output_url);
  const inside =
    link.origin === config.SEMBLANCE_PUBLIC_URL ? new URL(link.pathname + link.search, api) : link;
  const response = await untilServed('output', () => fetch(inside, { signal }));
  const output = new Uint8Array(await response.arrayBuffer());
  const share = expectSwapped(decodePng(await readFile(join(ROOT, 'media', BASE))), decodePng(output));
  say(
    `the output is a PNG of the base's size, and ${(share * 100).toFixed(1)} % of its pixels were exchanged`,
  );
}

/** Creates an account with enough balance for the test. @returns its key */
async function makeAccount(): Promise<string> {
  const cli = join(ROOT, 'control-plane', 'admin', 'cli.ts');
  const args = [
    'account',
    'create',
    '--name',
    'helm test',
    '--balance-usd',
    '5',
    '--actor',
    'helm test',
    '--json',
  ];
  for (;;) {
    try {
      const { stdout } = await promisify(execFile)(process.execPath, [cli, ...args], { signal });
      return (JSON.parse(stdout) as { api_key: string }).api_key;
    } catch (error) {
      const said = parsed((error as { stdout?: string }).stdout);
      // The control plane may still be starting; any other error is final.
      if (signal.aborted || said?.error.code !== 'unreachable')
        throw new Error(said?.error.message ?? describeError(error), { cause: error });
      say(said.error.message);
      await delay(RETRY_MS, undefined, { signal });
    }
  }
}

function parsed(text: string | undefined): { error: { code: string; message: string } } | undefined {
  try {
    return JSON.parse(text ?? '');
  } catch {
    return undefined;
  }
}

/** Retries while the service is starting; any other refusal is final. */
async function untilServed(what: string, send: () => Promise<Response>): Promise<Response> {
  for (;;) {
    const answer = await send().catch((error: unknown) => {
      signal.throwIfAborted();
      return String((error as Error).cause ?? error);
    });
    if (typeof answer !== 'string' && answer.ok) return answer;
    const why =
      typeof answer === 'string' ? answer : `HTTP ${answer.status}: ${(await answer.text()).slice(0, 500)}`;
    if (typeof answer !== 'string' && answer.status < 500 && answer.status !== 429)
      throw new Error(`${what}: ${why}`);
    say(`${what}: ${why}; again`);
    await delay(RETRY_MS, undefined, { signal });
  }
}

async function ended(read: () => Promise<Job>): Promise<Job> {
  for (let shown = ''; ; ) {
    const job = await read();
    if (job.status !== shown) say(`job ${job.status}`);
    shown = job.status;
    if (job.status === 'succeeded' || job.status === 'failed') return job;
    await delay(RETRY_MS, undefined, { signal });
  }
}

try {
  await main();
  say('ok');
} catch (error) {
  const late = signal.aborted ? `not within ${LIMIT_MS / 1_000} s: ` : '';
  process.stderr.write(`failed: ${late}${describeError(error)}\n`);
  process.exitCode = 1;
}
