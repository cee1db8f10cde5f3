import { EngineInterruptedError } from '@semblance/engine-api/engine';
import { createLiveVideo, type LiveVideoOptions } from '@semblance/engine-builtin/live-swap/live-video';
import { type LiveVideo, LiveVideoError } from '@semblance/engine-builtin/live-swap/types';
import type { LiveModels } from '@semblance/engine-onnx/live/live-models';

export interface ModelVideoOptions extends LiveVideoOptions {
  /**
   * Loads the owner's models; undefined: there is no swapper among them, and `builtin` draws.
   * @param onEnd called when they can run no more, although nobody closed them
   */
  readonly openModels: (
    signal: AbortSignal,
    onEnd: (reason: string) => void,
  ) => Promise<LiveModels | undefined>;
}

/**
 * Live video whose threads draw with the owner's models, which are loaded at the warm-up. When the models end, all
 * streams end with them, and the next warm-up loads them again.
 */
export function createModelVideo({ openModels, ...options }: ModelVideoOptions): LiveVideo {
  const { slots, onCrash } = options;
  const closing = new AbortController();
  let opening: Promise<Opened> | undefined;
  let opened: Opened | undefined;

  async function openAll(): Promise<Opened> {
    const models = await openModels(closing.signal, lose);
    const by = models && { entry: models.entry, threadData: () => models.threadData() };
    return { video: createLiveVideo({ ...options, ...by }), models };
  }

  function lose(reason: string): void {
    const lost = opened;
    if (!lost || closing.signal.aborted) return;
    opened = undefined;
    // The card is free for the new models when the old ones are gone.
    opening = Promise.all([lost.video.close(), lost.models?.close()]).then(openAll);
    // The next warm-up meets the fault.
    opening.catch(() => {});
    const error = new EngineInterruptedError(`the models of live swaps ended: ${reason}`);
    for (let slot = 0; slot < slots; slot++) onCrash(error);
  }

  return {
    slots,
    async warmUp(signal) {
      opening ??= openAll();
      try {
        opened = await opening;
      } catch (error) {
        opening = undefined;
        throw error;
      }
      await opened.video.warmUp(signal);
    },
    async open(of) {
      if (!opened) throw new LiveVideoError('no_slot', 'The models of live video are not loaded.');
      return opened.video.open(of);
    },
    async close() {
      closing.abort(new Error('live swaps end'));
      const ending = await opening?.catch(() => undefined);
      await Promise.all([ending?.video.close(), ending?.models?.close()]);
    },
  };
}

interface Opened {
  readonly video: LiveVideo;
  readonly models: LiveModels | undefined;
}
