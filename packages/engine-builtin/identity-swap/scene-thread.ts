import { serveFrames } from '../pool/serve-frames.ts';
import { Scene } from './scene.ts';
import type { SceneAnswer, SceneSource, SceneWork } from './scene-protocol.ts';

/**
 * Entry file of a thread that draws the frames of a video, while another thread searches for the person in the next
 * ones.
 */

interface State {
  readonly scene: Scene;
  /** Frames drawn since the last answer. */
  readonly done: number[];
}

function begin({ character, width, height, color, cancelled }: SceneSource): State {
  const flag = new Int32Array(cancelled);
  const done: number[] = [];
  const checkpoint = (): void => {
    if (Atomics.load(flag, 0) !== 0) throw new Error('the render was cancelled');
  };
  const scene = new Scene(character, ({ index }) => done.push(index), { width, height, color }, checkpoint);
  return { scene, done };
}

serveFrames(begin, ({ scene, done }, work: SceneWork): { answer: SceneAnswer } => {
  if (work.type === 'cut') scene.cut();
  else if (work.type === 'next') scene.next();
  else {
    scene.advance();
    scene.add(work.frame, work.person, work.face, work.cover);
  }
  return { answer: { done: done.splice(0), drawn: scene.drawn, faces: scene.faces } };
});
