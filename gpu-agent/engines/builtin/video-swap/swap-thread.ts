import { parentPort } from 'node:worker_threads';
import { prepareSource, type SourceFace } from '../swap/source-face.ts';
import { faceFromPoints } from '../vision/face-mesh.ts';
import { drawFace } from './draw.ts';
import type { FromSwapThread, SwapSource, ToSwapThread } from './swap-protocol.ts';
import { makeTexture } from './texture.ts';

/** Entry of a thread that analyses and draws frames of one video after the other; which of them, its owner says. */

const port = parentPort;
if (!port) throw new Error('swap-thread.ts runs in a worker thread only');

const sources = new Map<number, { readonly source: SwapSource; readonly sizes: Map<number, SourceFace> }>();

function prepared(render: number, width: number): SourceFace {
  const known = sources.get(render);
  if (!known) throw new Error('a frame of a video that is not being rendered');
  let made = known.sizes.get(width);
  if (!made) {
    const { picture, points, score } = known.source;
    // The patch is made a quarter finer than the width given.
    made = prepareSource(picture, faceFromPoints(points, score), width / 1.25);
    known.sizes.set(width, made);
  }
  return made;
}

function handle(message: ToSwapThread): void {
  switch (message.type) {
    case 'begin':
      sources.set(message.render, { source: message.source, sizes: new Map() });
      return;
    case 'end':
      sources.delete(message.render);
      return;
    case 'analyse': {
      const { job, render, frame, points, textureWidth, color } = message;
      const face = faceFromPoints(points, 1);
      const texture = makeTexture(frame, face, prepared(render, textureWidth), color);
      port?.postMessage({ type: 'texture', job, texture } satisfies FromSwapThread);
      return;
    }
    case 'draw': {
      const { job, frame, faces, color } = message;
      for (const face of faces) drawFace(frame, face, color);
      port?.postMessage({ type: 'drawn', job } satisfies FromSwapThread);
    }
  }
}

port.on('message', (message: ToSwapThread) => {
  try {
    handle(message);
  } catch (error) {
    if (!('job' in message)) throw error;
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    port.postMessage({ type: 'failed', job: message.job, message: text } satisfies FromSwapThread);
  }
});
