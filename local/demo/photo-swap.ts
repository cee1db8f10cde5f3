import { randomUUID } from 'node:crypto';
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { basename, extname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { StackHandle } from '../stack/handle.ts';
import { createClient, extensionOf, type Job } from './client.ts';
import { watchRenderJob } from './watch-render-job.ts';

/** Longest wait for the job. One of this size takes seconds, so after this time something is wrong. */
const PATIENCE_MS = 5 * 60_000;

/** The job ended without a picture. */
class JobFailedError extends Error {
  override name = 'JobFailedError';
  readonly code: string;
  readonly retryable = false;
  constructor(job: Job) {
    super(
      `job ${job.id} failed: ${job.error?.message ?? 'no reason given'} (${job.error?.code ?? 'unknown'})`,
    );
    this.code = job.error?.code ?? 'unknown';
  }
}

/**
 * Makes one Photo Swap as an integrator does: two uploads, one submit, reads until the job ends, one download.
 * Beside the job's status it shows what the Kubernetes API reports about its RenderJob.
 *
 * @returns the job and the path of the picture; copies of both inputs lie beside it
 */
export async function photoSwap(options: {
  handle: StackHandle;
  image: string;
  face: string;
  folder: string;
  signal: AbortSignal;
  say: (line: string) => void;
}): Promise<{ jobId: string; path: string }> {
  const { handle, image, face, folder, say } = options;
  const watching = new AbortController();
  const signal = AbortSignal.any([options.signal, watching.signal]);
  const client = createClient({ baseUrl: handle.base_url, apiKey: handle.api_key, signal, say });
  try {
    const before = await client.balance();
    const [image_key, face_key] = [await client.upload(image), await client.upload(face)];
    say(`Uploaded   ${basename(image)} as the image: ${image_key}`);
    say(`           ${basename(face)} as the face: ${face_key}`);

    const submittedAt = Date.now();
    const submitted = await client.submitPhotoSwap({ image_key, face_key }, randomUUID());
    say(`Submitted  ${submitted.id}`);
    const show = showMoves(say, submittedAt);
    show({ job: submitted.status });
    watchRenderJob({
      ...handle,
      name: submitted.id,
      signal,
      onChange: ({ status }) => show({ phase: status?.phase, agent: status?.agent }),
    });
    const read = () => client.job(submitted.status_url);
    // The balance shows the hold only if the job is not yet settled, so the job is read after the balance.
    const meanwhile = await client.balance();
    const held = isSettled(await read()) ? undefined : before.balance_usd - meanwhile.balance_usd;

    const job = await untilSettled({ read, show, signal });
    // The last change of the RenderJob may arrive a moment after that of the job.
    await delay(200, undefined, { signal });
    if (job.status === 'failed' || !job.output_url) throw new JobFailedError(job);

    const { bytes, type } = await client.download(job.output_url);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await copyFile(image, join(folder, `image${extname(image)}`));
    await copyFile(face, join(folder, `face${extname(face)}`));
    const path = join(folder, `swapped${extensionOf(type)}`);
    await writeFile(path, bytes);

    const after = await client.balance();
    say(
      `\nHeld       ${held === undefined ? 'unknown: the job had ended when the balance was read' : `${usd(held)} at submit`}`,
    );
    say(`Charged    ${usd(job.charged_usd ?? 0)}`);
    say(`Balance    ${usd(before.balance_usd)} before, ${usd(after.balance_usd)} now`);
    return { jobId: submitted.id, path };
  } finally {
    watching.abort(new Error('the demo is over'));
  }
}

/** Reads the job until it has ended and is charged: often at first, then within the API's rate limit. */
async function untilSettled(options: {
  read: () => Promise<Job>;
  show: (change: Moves) => void;
  signal: AbortSignal;
}): Promise<Job> {
  const { read, show, signal } = options;
  const deadline = Date.now() + PATIENCE_MS;
  for (let reads = 0; ; reads++) {
    const job = await read();
    show({ job: job.status });
    if (isSettled(job)) return job;
    if (Date.now() > deadline) {
      throw new Error(
        `job ${job.id} is still ${job.status} after ${PATIENCE_MS / 60_000} minutes; its RenderJob says why ` +
          '(kubectl describe renderjob), and so do the logs of operator and gpu-agent',
      );
    }
    await delay(reads < 25 ? 150 : 2_000, undefined, { signal });
  }
}

const isSettled = ({ status, charged_usd }: Job) =>
  (status === 'succeeded' || status === 'failed') && charged_usd !== null;

type Moves = { job?: string; phase?: string; agent?: string };

/** Prints a line whenever the job's status, the RenderJob's phase or its agent has changed. */
function showMoves(say: (line: string) => void, since: number): (change: Moves) => void {
  const now: Moves = {};
  let shown = '';
  return (change) => {
    Object.assign(now, change);
    const phase = now.phase ? `RenderJob ${now.phase}${now.agent ? ` on agent ${now.agent}` : ''}` : '';
    const line = `job ${(now.job ?? '').padEnd(10)}  ${phase}`.trimEnd();
    if (line === shown) return;
    shown = line;
    say(`  +${((Date.now() - since) / 1000).toFixed(2)} s  ${line}`);
  };
}

const usd = (amount: number) => `${amount.toFixed(6).replace(/(\.\d\d\d*?)0+$/, '$1')} USD`;
