import { describe, expect, it } from 'vitest';
import { silentLogger } from '../logging.ts';
import { createWorkQueue } from './work-queue.ts';

type Process = Parameters<typeof createWorkQueue>[0]['process'];
const tick = (ms = 5) => new Promise((resolve) => setTimeout(resolve, ms));

function queueOf(
  process: Process,
  more: { concurrency?: number; baseDelayMs?: number; maxDelayMs?: number } = {},
) {
  const stop = new AbortController();
  const queue = createWorkQueue({ process, concurrency: 4, name: 'test', logger: silentLogger(), ...more });
  const ended = queue.run(stop.signal);
  return { queue, ended, stop };
}

describe('the work queue', () => {
  it('works on a key once however often it was added, and again when it was added meanwhile', async () => {
    const worked: string[] = [];
    let release = () => {};
    const { queue, stop, ended } = queueOf(async (key) => {
      worked.push(key);
      if (worked.length === 1) await new Promise<void>((resolve) => (release = resolve));
      return undefined;
    });
    queue.add('a');
    queue.add('a');
    await tick();
    expect(worked).toEqual(['a']);
    queue.add('a');
    queue.add('a');
    await tick();
    expect(worked).toEqual(['a']);
    release();
    await queue.idle();
    expect(worked).toEqual(['a', 'a']);
    stop.abort();
    await ended;
  });

  it('keeps to its concurrency and to the order of arrival', async () => {
    let now = 0;
    let most = 0;
    const began: string[] = [];
    const { queue, stop, ended } = queueOf(
      async (key) => {
        began.push(key);
        most = Math.max(most, ++now);
        await tick(2);
        now--;
        return undefined;
      },
      { concurrency: 3 },
    );
    const keys = Array.from({ length: 12 }, (_, i) => `k${i}`);
    for (const key of keys) queue.add(key);
    expect(queue.depth).toBe(9);
    await queue.idle();
    expect([most, began]).toEqual([3, keys]);
    stop.abort();
    await ended;
  });

  it('works first on what is added so, waiting already, worked on or new', async () => {
    const began: string[] = [];
    let release = () => {};
    const { queue, stop, ended } = queueOf(
      async (key) => {
        began.push(key);
        if (began.length === 1) await new Promise<void>((resolve) => (release = resolve));
        return undefined;
      },
      { concurrency: 1 },
    );
    for (const key of ['a', 'b', 'c', 'd']) queue.add(key);
    queue.addFirst('c');
    queue.addFirst('new');
    queue.add('new');
    // Key `a` is being worked on. Adding it with `add` and with `addFirst`, in either order, makes it urgent.
    queue.addFirst('a');
    queue.add('a');
    expect(queue.depth).toBe(4);
    release();
    await queue.idle();
    expect(began).toEqual(['a', 'c', 'new', 'a', 'b', 'd']);
    expect(queue.depth).toBe(0);
    stop.abort();
    await ended;
  });

  it('retries failures with growing delays, and the key works again at once after a success', async () => {
    const at: number[] = [];
    const { queue, stop, ended } = queueOf(
      async () => {
        at.push(performance.now());
        if (at.length <= 4) throw new Error('scripted');
        return undefined;
      },
      { baseDelayMs: 20 },
    );
    queue.add('a');
    await expect.poll(() => at.length).toBe(5);
    const gaps = at.slice(1).map((time, i) => time - (at[i] ?? 0));
    // Jitter takes away at most half of the delays 20, 40, 80 and 160 ms.
    expect(gaps[0]).toBeGreaterThanOrEqual(9);
    expect(gaps[3]).toBeGreaterThanOrEqual(79);
    queue.add('a');
    await queue.idle();
    expect(at).toHaveLength(6);
    stop.abort();
    await ended;
  });

  it('adds later, at the earliest wish, and not at all once it has ended', async () => {
    const worked: string[] = [];
    const { queue, stop, ended } = queueOf(async (key) => {
      worked.push(key);
      return key === 'again' && worked.length < 3 ? { requeueAfterMs: 1 } : undefined;
    });
    queue.addAfter('late', 60_000);
    queue.addAfter('late', 10);
    queue.addAfter('late', 30_000);
    queue.addAfter('never', 60_000);
    await expect.poll(() => worked).toEqual(['late']);
    queue.add('again');
    await expect.poll(() => worked).toEqual(['late', 'again', 'again']);
    stop.abort();
    await ended;
    queue.add('more');
    await tick();
    expect(worked).toHaveLength(3);
  });

  it('waits for the work under way when it ends, and tells it to hurry', async () => {
    let aborted = false;
    const { queue, stop, ended } = queueOf(async (_, signal) => {
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
      await tick(20);
      aborted = true;
      return undefined;
    });
    queue.add('a');
    await tick();
    stop.abort();
    await ended;
    expect(aborted).toBe(true);
  });
});
