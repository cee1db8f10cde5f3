import { RenderError } from '@semblance/engine-api/engine';
import type { Findings, LeftReason, MappedFace } from '@semblance/engine-api/findings';
import { faceCounts } from '../findings/face-counts.ts';
import { framesUnchanged, hintsOfLeft, mouthCovered } from '../findings/hints.ts';

const VIDEO = { role: 'video', name: 'video' };

/**
 * Returns what was found out about a video whose main face speaks.
 * @param counts frames, those with the face, and those in which its mouth was moved
 * @param mapped what became of each person, where one was named as the speaker
 */
export function lipFindings(
  left: readonly LeftReason[],
  { frames, faces, spoken }: { readonly frames: number; readonly faces: number; readonly spoken: number },
  mapped?: readonly MappedFace[],
): Findings {
  const what = faces > spoken ? 'face with a free mouth' : 'face';
  return {
    faces: faceCounts(1, left),
    hints: framesUnchanged({ unchanged: frames - spoken, frames }, VIDEO, what),
    ...(mapped && { mapped }),
  };
}

/**
 * Returns the refusal of a video in which no mouth can be moved.
 * @param covered whether it shows a face with something in front of its mouth
 * @param named whether a person was named as the speaker
 */
export function silent(left: readonly LeftReason[], covered: boolean, named = false): RenderError {
  const findings = {
    faces: faceCounts(0, covered ? [...left, 'covered'] : left),
    hints: covered ? mouthCovered(VIDEO) : hintsOfLeft(left, VIDEO),
  };
  const message = covered
    ? 'Something is in front of the mouth in every frame of the video (video_key) with a face.'
    : named
      ? 'The person of speaker_face_id was not found in the video (video_key).'
      : 'No face was found in the video (video_key).';
  return new RenderError('face_not_detected', message, { findings });
}
