import { faceFromPoints } from '@semblance/vision/face-mesh';
import { serveFrames } from '../pool/serve-frames.ts';
import { drawFace } from './draw.ts';
import { preparer } from './prepared-source.ts';
import type { SwapAnswer, SwapWork } from './swap-protocol.ts';
import { makeTexture } from './texture.ts';

/** Entry file of a thread that analyses and draws frames of videos. */

serveFrames(preparer, (prepared, work: SwapWork): { answer: SwapAnswer } => {
  const { frame, color } = work;
  if (work.type === 'analyse') {
    const face = faceFromPoints(work.points, 1);
    const { cover, filmed, before } = work;
    return {
      answer: makeTexture({ frame, face, color, cover, filmed, before }, prepared(work.textureWidth)),
    };
  }
  for (const face of work.faces) drawFace(frame, face, color);
  return { answer: undefined };
});
