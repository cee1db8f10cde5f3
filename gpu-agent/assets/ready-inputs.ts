import { type Capability, inputsOf } from '@semblance/engine-api/capabilities';
import type { EngineCapability } from '@semblance/engine-api/engine';
import { plainPicture } from '@semblance/vision/image/plain-picture';
import { isWebp, webpToApng } from '@semblance/vision/image/webp-clip';

type Paths = Readonly<Record<string, string>>;

/**
 * Rewrites what an engine could not read, beside the files: an animated WebP in the place of a video as animated PNG,
 * because no ffmpeg reads it; and, for engines that read plain pictures alone, HEIC, AVIF and GIF as PNG.
 * @param inputs role → path
 * @returns the inputs for the engine; paths of all other files stay
 * @throws RenderError, or the signal's reason
 */
export async function readyInputs(
  capability: Capability,
  inputs: Paths,
  offer: Pick<EngineCapability, 'plainPictures'>,
  signal: AbortSignal,
): Promise<Paths> {
  const facts = inputsOf(capability);
  const ready = await Promise.all(
    Object.entries(inputs).map(async ([role, path]): Promise<[string, string]> => {
      const kind = facts[role]?.kind;
      if (kind === 'video' && (await isWebp(path))) {
        const clip = `${path}.apng`;
        await webpToApng(path, clip, signal);
        return [role, clip];
      }
      const plain = kind === 'image' && offer.plainPictures;
      return [role, plain ? await plainPicture(path, `The input ${role}`) : path];
    }),
  );
  return Object.fromEntries(ready);
}

/** Rewrites the pictures of a session for an engine that reads plain ones alone, as {@link readyInputs}. */
export async function readyPictures(inputs: Paths): Promise<Paths> {
  const ready = Object.entries(inputs).map(
    async ([role, path]) => [role, await plainPicture(path, `The input ${role}`)] as const,
  );
  return Object.fromEntries(await Promise.all(ready));
}
