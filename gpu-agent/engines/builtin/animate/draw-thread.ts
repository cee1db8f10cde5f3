import { parentPort } from 'node:worker_threads';
import type { FromDrawThread, SentFrame, ToDrawThread } from './draw-protocol.ts';
import { drawPortrait, type Portrait, withRig } from './portrait.ts';

/** Entry of a thread that draws portraits in poses; which of them, its owner says. */

const port = parentPort;
if (!port) throw new Error('draw-thread.ts runs in a worker thread only');

const portraits = new Map<number, Portrait>();

function handle(message: ToDrawThread): void {
  switch (message.type) {
    case 'begin':
      portraits.set(message.render, withRig(message.portrait));
      return;
    case 'end':
      portraits.delete(message.render);
      return;
    case 'draw': {
      const { job, render, pose, into } = message;
      const portrait = portraits.get(render);
      if (!portrait) throw new Error('a frame of a portrait that is not being rendered');
      const frame = drawPortrait(portrait, pose, into) as SentFrame;
      port?.postMessage({ type: 'drawn', job, frame } satisfies FromDrawThread, [frame.buffer]);
    }
  }
}

port.on('message', (message: ToDrawThread) => {
  try {
    handle(message);
  } catch (error) {
    if (!('job' in message)) throw error;
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    port.postMessage({ type: 'failed', job: message.job, message: text } satisfies FromDrawThread);
  }
});
