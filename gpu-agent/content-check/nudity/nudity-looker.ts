import { withOneDecoder } from '@semblance/vision/image/decoder';
import { openPicture } from '@semblance/vision/image/picture-file';
import type { CheckedFile } from '../check.ts';
import type { Looker } from '../looker/looker.ts';
import { createSampledFrames } from '../looker/sampled-frames.ts';
import { FRAME_SIDE, openClassifier } from './classifier.ts';

export interface NudityLookerOptions {
  /** Share from which a picture is refused, above 0 and at most 1. */
  readonly threshold: number;
}

/** Creates the work of the nudity check's process, which finds the first picture or video that shows any. */
export function createNudityLooker({ threshold }: NudityLookerOptions): Looker {
  const classifier = openClassifier();
  // A failure is reported by each look.
  classifier.catch(() => undefined);
  const frames = createSampledFrames();

  async function shows(
    { path, kind, role }: CheckedFile,
    input: boolean,
    signal: AbortSignal,
    onStep: () => void,
  ) {
    const { ofPicture, ofFrame } = await classifier;
    if (kind === 'image') {
      // Formats that engines refuse are refused in the same way here, and reach no other decoder.
      if (input) await openPicture(path, `The input ${role}`);
      signal.throwIfAborted();
      return (await ofPicture(path)) >= threshold;
    }
    if (kind === 'video')
      for await (const sampled of frames.of(path, FRAME_SIDE, signal, onStep))
        if ((await ofFrame(sampled)) >= threshold) return true;
    return false;
  }

  return {
    find: ({ phase, files }, signal, onStep) =>
      // The pictures of one attempt share a process.
      withOneDecoder(async () => {
        for (const file of files) {
          // The caller may be gone, so no further file is decoded.
          signal.throwIfAborted();
          onStep();
          if (await shows(file, phase === 'input', signal, onStep)) return file;
        }
        return undefined;
      }),
    close: () => frames.close(),
  };
}
