import { parentPort } from 'node:worker_threads';
import { threadStarted } from '@semblance/vision/models/thread-gate';
import type { FromFrameThread, ToFrameThread } from './frame-threads.ts';

interface Handled<Answer> {
  readonly answer: Answer;
  readonly transfer?: ArrayBuffer[];
}

/**
 * Makes the calling thread one of `FrameThreads`.
 * @param begin creates the state that is kept for one render
 * @param handle does one piece of work; `transfer` is memory whose ownership moves with the answer. If it returns a
 * promise, the next piece of work may begin before it is done
 * @param end gets the state at the end of the render, also while work of it is being done
 */
export function serveFrames<Source, State, Work, Answer>(
  begin: (source: Source) => State,
  handle: (state: State, work: Work) => Handled<Answer> | Promise<Handled<Answer>>,
  end?: (state: State) => void,
): void {
  const port = parentPort;
  if (!port) throw new Error('frames are served in a worker thread only');
  const states = new Map<number, State>();
  const send = (message: FromFrameThread<Answer>, transfer: ArrayBuffer[] = []) =>
    port.postMessage(message, transfer);

  threadStarted();
  port.on('message', async (message: ToFrameThread<Source, Work>) => {
    if (message.type === 'begin') states.set(message.render, begin(message.source));
    else if (message.type === 'end') {
      const state = states.get(message.render);
      if (states.delete(message.render)) end?.(state as State);
    } else {
      const { job, render, work } = message;
      try {
        if (!states.has(render)) throw new Error('a frame of a video that is not being rendered');
        const handled = handle(states.get(render) as State, work);
        const { answer, transfer } = handled instanceof Promise ? await handled : handled;
        send({ type: 'done', job, answer }, transfer);
      } catch (error) {
        const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
        send({ type: 'failed', job, message: text });
      }
    }
  });
}
