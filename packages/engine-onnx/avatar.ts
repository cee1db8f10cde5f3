import type { InspectRequest, RenderRequest, RenderResult } from '@semblance/engine-api/engine';
import type { Findings } from '@semblance/engine-api/findings';
import { inspectAvatar as inspectPortrait, speakWork } from '@semblance/engine-builtin/avatar/avatar';
import type { Media } from '@semblance/media/types';
import type { SpeechTools } from '@semblance/speech/speech-tools';
import type { FaceFinder } from '@semblance/vision/face-finder';
import type { FaceRecogniser } from '@semblance/vision/face-recogniser';

export interface AvatarParts {
  readonly media: Media;
  readonly finder: FaceFinder;
  readonly recogniser: () => Promise<FaceRecogniser>;
  /** The synthesisers of the machine, and the owner's voices. */
  readonly speech: SpeechTools;
}

/**
 * Makes the person of a portrait (`image`) speak a script, as `builtin` does, with the owner's voices beside those of
 * the machine.
 * @throws RenderError
 */
export async function avatar(parts: AvatarParts, request: RenderRequest): Promise<RenderResult> {
  const { signal, onProgress } = request;
  const result = await speakWork(request, {
    ...parts,
    signal,
    onProgress,
    checkpoint: () => signal.throwIfAborted(),
  });
  const { voice } = result.details ?? {};
  const model = parts.speech.neural?.find(({ name }) => voice === name || `${voice}`.startsWith(`${name}/`));
  return { ...result, details: { ...result.details, ...(model && { speech: `onnx ${model.name}` }) } };
}

/** Looks at the portrait. @throws RenderError as the render would */
export function inspectAvatar(finder: FaceFinder, { signal, ...work }: InspectRequest): Promise<Findings> {
  return inspectPortrait(work, { finder, checkpoint: () => signal.throwIfAborted() });
}
