import { takesFaces } from '@semblance/engine-api/capabilities';
import {
  type Engine,
  type EngineCapability,
  RenderError,
  type RenderRequest,
  type RenderResult,
  type UnavailableCapability,
} from '@semblance/engine-api/engine';
import type { FactoryOptions } from '@semblance/engine-api/factory-options';
import { NAMED_PEOPLE } from '@semblance/engine-api/people';
import type { Speech } from '@semblance/engine-api/speech';
import { findMediaTools } from '@semblance/media/media';
import { announcedSpeech } from '@semblance/speech/announce';
import { findSpeechTools } from '@semblance/speech/tools';
import { BUILTIN_CAPABILITIES, type BuiltinCapability } from './capabilities.ts';
import { WorkerPool } from './pool/worker-pool.ts';
import { type BuiltinSettings, parseBuiltinSettings, swapOptions } from './settings.ts';

/**
 * Creates the engine that runs everywhere: shipped networks and classical image processing on the CPU. It renders in
 * `threads`, one job in each. It prints its warnings, because the agent logs what its process prints.
 */
export function createBuiltinEngine({ threads, settings }: FactoryOptions): Engine {
  if (!Number.isInteger(threads) || threads < 1)
    throw new RangeError(`threads must be a positive integer, not ${threads}`);
  const parsed = parseBuiltinSettings(settings);
  const pool = new WorkerPool({
    threads,
    entry: new URL('./pool/worker.ts', import.meta.url),
    settings: parsed,
    onCrash: (error) => console.warn('a render thread ended and will be replaced', { err: error }),
  });
  // Until the media tools have been looked for, only capabilities without them are offered.
  let offered: readonly BuiltinCapability[] = BUILTIN_CAPABILITIES.filter(({ needsMedia }) => !needsMedia);
  let unavailable: readonly UnavailableCapability[] = [];
  let voices: Speech | undefined;
  return {
    name: 'builtin',
    version: '1',
    findsPeople: true,
    previewsSwaps: true,
    get capabilities() {
      return offered.map((one) => toEngineCapability(one, parsed, voices));
    },
    get unavailable() {
      return unavailable;
    },
    async warmUp(signal) {
      const [media, speech] = await Promise.all([findMediaTools(), findSpeechTools()]);
      const without = (
        what: string,
        reason: string,
        needs: (one: BuiltinCapability) => boolean | undefined,
      ) => {
        const names = BUILTIN_CAPABILITIES.filter(needs).map(({ capability }) => capability);
        if (names.length) console.warn(`not offered without ${what}: ${reason}`, { capabilities: names });
      };
      if (!media.available) without('video tools', media.reason, ({ needsMedia }) => needsMedia);
      if (!speech.available) without('a speech synthesiser', speech.reason, ({ needsSpeech }) => needsSpeech);
      const missing = ({ needsMedia, needsSpeech }: BuiltinCapability) => {
        if (needsMedia && !media.available) return media.reason;
        return needsSpeech && !speech.available ? speech.reason : undefined;
      };
      voices = speech.available ? announcedSpeech(speech) : undefined;
      offered = BUILTIN_CAPABILITIES.filter((one) => missing(one) === undefined);
      unavailable = BUILTIN_CAPABILITIES.flatMap((one) => {
        const message = missing(one);
        return message === undefined ? [] : { capability: one.capability, message };
      });
      await pool.warmUp(signal);
    },
    render: (request) => render(pool, offered, request),
    inspect: ({ signal, ...work }) => pool.inspect(work, signal),
    close: () => pool.close(),
  };
}

function toEngineCapability(
  { capability, slots, memoryMib, limits, swaps, needsSpeech }: BuiltinCapability,
  settings: BuiltinSettings,
  voices: Speech | undefined,
): EngineCapability {
  return {
    capability,
    slots,
    memoryMib,
    ...(limits && { limits }),
    ...(swaps && { options: swapOptions(settings) }),
    ...(takesFaces(capability) && { severalFaces: true }),
    ...((takesFaces(capability) || NAMED_PEOPLE[capability]) && { mapsFaces: true }),
    ...(needsSpeech && voices && { speech: voices }),
  };
}

async function render(
  pool: WorkerPool,
  offered: readonly BuiltinCapability[],
  request: RenderRequest,
): Promise<RenderResult> {
  const { capability, inputs, parameters, options = {}, outputDir, signal, onProgress } = request;
  if (!offered.some((one) => one.capability === capability)) {
    throw new RenderError('processing_failed', `The builtin engine has no capability ${capability}.`);
  }
  return pool.render({ capability, inputs, parameters, options, outputDir }, signal, onProgress);
}
