import { type Capability, inputsOf } from '@semblance/engine-api/capabilities';
import { isWebp, webpToApng } from '@semblance/vision/image/webp-clip';

type Paths = Readonly<Record<string, string>>;

/**
 * Rewrites animated WebP files in the place of videos as animated PNG beside them, because no ffmpeg reads them. All
 * engines get them so.
 * @param inputs role → path
 * @returns the inputs for engines; paths of all other files stay
 * @throws RenderError, or the signal's reason
 */
export async function readyClips(capability: Capability, inputs: Paths, signal: AbortSignal): Promise<Paths> {
  const facts = inputsOf(capability);
  const ready = await Promise.all(
    Object.entries(inputs).map(async ([role, path]): Promise<[string, string]> => {
      if (facts[role]?.kind !== 'video' || !(await isWebp(path))) return [role, path];
      const clip = `${path}.apng`;
      await webpToApng(path, clip, signal);
      return [role, clip];
    }),
  );
  return Object.fromEntries(ready);
}
