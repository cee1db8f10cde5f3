import { serveFrames } from '../pool/serve-frames.ts';
import { prepareSource, type SourceFace } from '../swap/source-face.ts';
import { faceFromPoints } from '../vision/face-mesh.ts';
import { drawFace } from './draw.ts';
import type { SwapAnswer, SwapSource, SwapWork } from './swap-protocol.ts';
import { makeTexture } from './texture.ts';

/** Entry of a thread that analyses and draws frames of videos. */

/** Sources made ready for faces of a width, kept by it. */
function preparer({ picture, points, score }: SwapSource): (width: number) => SourceFace {
  const made = new Map<number, SourceFace>();
  return (width) => {
    let source = made.get(width);
    if (!source) {
      // The patch is made a quarter finer than the width given.
      source = prepareSource(picture, faceFromPoints(points, score), width / 1.25);
      made.set(width, source);
    }
    return source;
  };
}

serveFrames(preparer, (prepared, work: SwapWork): { answer: SwapAnswer } => {
  const { frame, color } = work;
  if (work.type === 'analyse') {
    const face = faceFromPoints(work.points, 1);
    return { answer: makeTexture(frame, face, prepared(work.textureWidth), color) };
  }
  for (const face of work.faces) drawFace(frame, face, color);
  return { answer: undefined };
});
