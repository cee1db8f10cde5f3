import type { RenderResult } from '@semblance/engine-api/engine';
import type { WrittenVideo } from '@semblance/media/types';

/** Returns the result of a render that wrote a video; its details begin with the number of frames. */
export function videoResult(
  outputPath: string,
  written: Pick<WrittenVideo, 'frames' | 'durationMs'>,
  { details, ...rest }: Pick<RenderResult, 'stages' | 'details' | 'findings'>,
): RenderResult {
  return {
    outputPath,
    contentType: 'video/mp4',
    units: { unit: 'second', quantity: written.durationMs / 1000 },
    details: { frames: written.frames, ...details },
    ...rest,
  };
}
