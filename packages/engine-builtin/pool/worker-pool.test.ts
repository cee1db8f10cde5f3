import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { threadEnd } from './thread-end.ts';
import { WorkerPool } from './worker-pool.ts';

/** Code of a thread that speaks the protocol and does what the input `image` says. */
const THREAD = `
import { parentPort } from 'node:worker_threads';
import { threadStarted } from '${new URL('../../vision/models/thread-gate.ts', import.meta.url)}';
threadStarted();
parentPort.on('message', ({ type, id, work, cancelled }) => {
  if (type === 'cancel') return;
  if (type === 'warm-up') return parentPort.postMessage({ type: 'done', id, result: null });
  if (work.inputs.image === 'exit') process.exit(3);
  if (work.inputs.image === 'throw') throw new Error('broken on purpose');
  if (work.inputs.image === 'spin') for (;;);
  if (work.inputs.image === 'obey') {
    const flag = new Int32Array(cancelled);
    const timer = setInterval(() => {
      if (Atomics.load(flag, 0) === 0) return;
      clearInterval(timer);
      parentPort.postMessage({ type: 'failed', id, error: { code: 'cancelled', message: 'cancelled' } });
    }, 5);
    return;
  }
  if (work.inputs.image === 'wait') return;
  if (work.inputs.image === 'fault')
    return parentPort.postMessage({ type: 'failed', id, error: { code: 'engine_interrupted', message: 'killed' } });
  parentPort.postMessage({ type: 'done', id, result: { outputPath: work.inputs.image } });
});
`;

let directory: string;
let crashes: Error[];
let pool: WorkerPool;

async function openPool(thread: string): Promise<WorkerPool> {
  const entry = join(directory, 'thread.mjs');
  await writeFile(entry, thread);
  return new WorkerPool({
    threads: 1,
    entry: pathToFileURL(entry),
    onCrash: (error) => crashes.push(error),
  });
}

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'semblance-pool-'));
  crashes = [];
  pool = await openPool(THREAD);
});

afterEach(async () => {
  await pool.close();
  await rm(directory, { recursive: true, force: true });
});

function run(image: string, signal = new AbortController().signal): Promise<unknown> {
  const work = { capability: 'face-swap-image', inputs: { image }, parameters: {}, outputDir: '' } as const;
  return pool.render(work, signal, () => undefined);
}

describe('worker pool', () => {
  it.each([
    ['exit', 'a render thread ended (exit status 3)'],
    ['throw', 'a render thread ended (by an error of its own)'],
  ])('interrupts the job of a thread that ends by %s and replaces the thread', async (how, message) => {
    await pool.warmUp(new AbortController().signal);
    const [before] = pool.threadIds;
    const [dying, waiting] = [run(how), run('picture')];
    await expect(dying).rejects.toMatchObject({ name: 'EngineInterruptedError', retryable: true, message });
    await expect(waiting).resolves.toEqual({ outputPath: 'picture' });
    expect(pool.threadIds).toHaveLength(1);
    expect(pool.threadIds[0]).not.toBe(before);
    expect(crashes).toHaveLength(1);
  });

  it('warms the thread that takes the place of a dead one, before a job asks for it', async () => {
    await expect(run('exit')).rejects.toThrow('a render thread ended');
    await expect.poll(() => pool.threadIds).toHaveLength(1);
    const [warm] = pool.threadIds;
    await expect(run('picture')).resolves.toEqual({ outputPath: 'picture' });
    expect(pool.threadIds).toEqual([warm]);
    expect(crashes).toHaveLength(1);
  });

  it('does not go on warming up threads that die of it', async () => {
    await pool.close();
    pool = await openPool(
      THREAD.replace(
        "if (type === 'warm-up') return",
        "if (type === 'warm-up') process.exit(4); else if (false) return",
      ),
    );
    await expect(run('exit')).rejects.toThrow('a render thread ended');
    await expect
      .poll(() => crashes.map(({ message }) => message))
      .toEqual(['a render thread ended (exit status 3)', 'a render thread ended (exit status 4)']);
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(crashes).toHaveLength(2);
    expect(pool.threadIds).toEqual([]);
    await expect(run('picture')).resolves.toEqual({ outputPath: 'picture' });
  });

  it('says of a thread that ran out of memory that it did', async () => {
    const eater = new Worker('const held = []; for (;;) held.push(new Array(1e5).fill(0));', {
      eval: true,
      resourceLimits: { maxOldGenerationSizeMb: 16 },
    });
    const [error] = await once(eater, 'error');
    expect(threadEnd('a render thread', error, 1).message).toBe('a render thread ended (out of memory)');
  });

  it('tells a fault of the moment, which is tried again, from a refusal', async () => {
    await expect(run('fault')).rejects.toMatchObject({ name: 'EngineInterruptedError', message: 'killed' });
    expect(crashes).toEqual([]);
  });

  it('ends a thread that does not listen, within a second of the cancellation', async () => {
    // Takes the best of several runs, because a busy machine slows each of them.
    let quickest = Number.POSITIVE_INFINITY;
    for (let left = 3; left > 0 && quickest >= 1000; left--) {
      await pool.warmUp(new AbortController().signal);
      const abort = new AbortController();
      const spinning = run('spin', abort.signal);
      const next = run('picture');
      await new Promise((resolve) => setTimeout(resolve, 100));
      const start = performance.now();
      abort.abort(new Error('cancelled by its owner'));
      await expect(spinning).rejects.toThrow('cancelled by its owner');
      quickest = Math.min(quickest, performance.now() - start);
      await expect(next).resolves.toEqual({ outputPath: 'picture' });
    }
    expect(quickest).toBeLessThan(1000);
    expect(crashes).toEqual([]);
  });

  it('keeps the thread of a render that stops by itself', async () => {
    await pool.warmUp(new AbortController().signal);
    const [before] = pool.threadIds;
    const abort = new AbortController();
    const obeying = run('obey', abort.signal);
    abort.abort(new Error('enough'));
    await expect(obeying).rejects.toThrow('enough');
    expect(pool.threadIds).toEqual([before]);
  });

  it('takes a cancelled job out of the queue', async () => {
    const abort = new AbortController();
    const running = run('wait').catch((error: unknown) => error);
    const queued = run('picture', abort.signal);
    abort.abort(new Error('not any more'));
    await expect(queued).rejects.toThrow('not any more');
    await pool.close();
    const closed = { name: 'EngineInterruptedError', message: 'the engine was closed' };
    expect(await running).toMatchObject(closed);
    await expect(run('picture')).rejects.toMatchObject(closed);
  });
});
