import { parentPort } from 'node:worker_threads';
import type { FromFrameThread, ToFrameThread } from './frame-threads.ts';

/**
 * Makes the calling thread one of `FrameThreads`.
 * @param begin creates the state that is kept for one render
 * @param handle does one piece of work; `transfer` is memory whose ownership moves with the answer
 */
export function serveFrames<Source, State, Work, Answer>(
  begin: (source: Source) => State,
  handle: (state: State, work: Work) => { readonly answer: Answer; readonly transfer?: ArrayBuffer[] },
): void {
  const port = parentPort;
  if (!port) throw new Error('frames are served in a worker thread only');
  const states = new Map<number, State>();
  const send = (message: FromFrameThread<Answer>, transfer: ArrayBuffer[] = []) =>
    port.postMessage(message, transfer);

  port.on('message', (message: ToFrameThread<Source, Work>) => {
    if (message.type === 'begin') states.set(message.render, begin(message.source));
    else if (message.type === 'end') states.delete(message.render);
    else {
      const { job, render, work } = message;
      try {
        if (!states.has(render)) throw new Error('a frame of a video that is not being rendered');
        const { answer, transfer } = handle(states.get(render) as State, work);
        send({ type: 'done', job, answer }, transfer);
      } catch (error) {
        const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
        send({ type: 'failed', job, message: text });
      }
    }
  });
}
