import { EngineInterruptedError } from '@semblance/engine-api/engine';
import { afterAll, afterEach, beforeEach, expect, it, vi } from 'vitest';
import { FrameThreads } from './frame-threads.ts';

/** Code of a thread that answers with the source of its render and its work, and does what the work says. */
const THREAD = `
import { parentPort } from 'node:worker_threads';
const sources = new Map();
parentPort.on('message', ({ type, render, source, job, work }) => {
  if (type === 'begin') sources.set(render, source);
  if (type !== 'work') return;
  if (work === 'exit') process.exit(3);
  if (work === 'throw') throw new Error('broken on purpose');
  if (work === 'wait') return;
  if (work === 'fail') return parentPort.postMessage({ type: 'failed', job, message: 'a bug' });
  parentPort.postMessage({ type: 'done', job, answer: sources.get(render) + work });
});
`;

const warned = vi.spyOn(console, 'warn').mockImplementation(() => {});
let threads: FrameThreads<string, string, string>;
beforeEach(() => {
  warned.mockClear();
  threads = new FrameThreads(new URL(`data:text/javascript,${encodeURIComponent(THREAD)}`), 1);
});
afterEach(() => threads.close());
afterAll(() => warned.mockRestore());

it.each([
  ['exit', 'exit status 3', 0],
  ['throw', 'by an error of its own', 1],
])(
  'a thread that ends by %s interrupts what it was asked, and another goes on',
  async (how, why, warnings) => {
    const render = threads.begin('source, ');
    expect(await threads.ask(render, 'one')).toBe('source, one');
    const [waiting, dying] = [threads.ask(render, 'wait'), threads.ask(render, how)];
    const ended = await Promise.allSettled([waiting, dying]);
    for (const each of ended) {
      const reason = each.status === 'rejected' ? each.reason : undefined;
      expect(reason).toBeInstanceOf(EngineInterruptedError);
      expect(reason.message).toBe(`a thread that works on frames ended (${why})`);
    }
    expect(await threads.ask(render, 'two')).toBe('source, two');
    expect(warned).toHaveBeenCalledTimes(warnings);
  },
);

it('what a living thread cannot do is a fault of the program, and no other try would help', async () => {
  const render = threads.begin('');
  const error = await threads.ask(render, 'fail').catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(Error);
  expect(error).not.toBeInstanceOf(EngineInterruptedError);
  expect(error).toMatchObject({ message: 'a bug' });
});
