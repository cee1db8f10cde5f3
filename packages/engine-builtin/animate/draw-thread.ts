import { serveFrames } from '../pool/serve-frames.ts';
import type { PoseToDraw, SentFrame } from './draw-threads.ts';
import { drawPortrait, withRig } from './portrait.ts';

/** Entry file of a thread that draws portraits in poses. */

serveFrames(withRig, (portrait, { pose, into }: PoseToDraw) => {
  const answer = drawPortrait(portrait, pose, into) as SentFrame;
  return { answer, transfer: [answer.buffer] };
});
