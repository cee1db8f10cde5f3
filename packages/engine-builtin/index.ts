import { availableParallelism } from 'node:os';
import {
  type Engine,
  type EngineCapability,
  RenderError,
  type RenderRequest,
  type RenderResult,
  type UnavailableCapability,
} from '@semblance/engine-api/engine';
import { findMediaTools } from '@semblance/media/media';
import { findSpeechTools } from '@semblance/speech/tools';
import { BUILTIN_CAPABILITIES, type BuiltinCapability } from './capabilities.ts';
import { WorkerPool } from './pool/worker-pool.ts';
import { parseBuiltinSettings } from './settings.ts';

export interface BuiltinEngineOptions {
  /** Settings as text, by the names of `parseBuiltinSettings`. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Renders at once, one thread each; default: one per core. */
  readonly threads?: number;
  /** Finds ffmpeg; default: on PATH. */
  readonly findMedia?: typeof findMediaTools;
  /** Finds flite and espeak-ng; default: on PATH. */
  readonly findSpeech?: typeof findSpeechTools;
  readonly logger?: { warn(fields: object, message: string): void };
}

/** Creates the engine that runs everywhere: shipped networks and classical image processing on the CPU. */
export function createBuiltinEngine(options: BuiltinEngineOptions = {}): Engine {
  const { likeness } = parseBuiltinSettings(options.settings);
  const threads = options.threads ?? availableParallelism();
  if (!Number.isInteger(threads) || threads < 1)
    throw new RangeError(`threads must be a positive integer, not ${threads}`);
  // The engine process has no logger: the agent logs what the process prints.
  const logger = options.logger ?? {
    warn: (fields: object, message: string) => console.warn(message, fields),
  };
  const pool = new WorkerPool({
    threads,
    likeness,
    onCrash: (error) => logger.warn({ err: error }, 'a render thread ended and will be replaced'),
  });
  // Until the media tools have been looked for, only capabilities without them are offered.
  let offered: readonly BuiltinCapability[] = BUILTIN_CAPABILITIES.filter(({ needsMedia }) => !needsMedia);
  let unavailable: readonly UnavailableCapability[] = [];
  return {
    name: 'builtin',
    version: '1',
    get capabilities() {
      return offered.map(toEngineCapability);
    },
    get unavailable() {
      return unavailable;
    },
    async warmUp(signal) {
      const [media, speech] = await Promise.all([
        (options.findMedia ?? findMediaTools)(),
        (options.findSpeech ?? findSpeechTools)(),
      ]);
      const without = (
        what: string,
        reason: string,
        needs: (one: BuiltinCapability) => boolean | undefined,
      ) => {
        const names = BUILTIN_CAPABILITIES.filter(needs).map(({ capability }) => capability);
        if (names.length) logger.warn({ capabilities: names }, `not offered without ${what}: ${reason}`);
      };
      if (!media.available) without('video tools', media.reason, ({ needsMedia }) => needsMedia);
      if (!speech.available) without('a speech synthesiser', speech.reason, ({ needsSpeech }) => needsSpeech);
      const missing = ({ needsMedia, needsSpeech }: BuiltinCapability) => {
        if (needsMedia && !media.available) return media.reason;
        return needsSpeech && !speech.available ? speech.reason : undefined;
      };
      offered = BUILTIN_CAPABILITIES.filter((one) => missing(one) === undefined);
      unavailable = BUILTIN_CAPABILITIES.flatMap((one) => {
        const message = missing(one);
        return message === undefined ? [] : { capability: one.capability, message };
      });
      await pool.warmUp(signal);
    },
    render: (request) => render(pool, offered, request),
    inspect: ({ signal, capability, inputs, parameters }) =>
      pool.inspect({ capability, inputs, parameters }, signal),
    close: () => pool.close(),
  };
}

function toEngineCapability({ capability, slots, memoryMib, limits }: BuiltinCapability): EngineCapability {
  return { capability, slots, memoryMib, ...(limits && { limits }) };
}

async function render(
  pool: WorkerPool,
  offered: readonly BuiltinCapability[],
  request: RenderRequest,
): Promise<RenderResult> {
  const { capability, inputs, parameters, outputDir, signal, onProgress } = request;
  if (!offered.some((one) => one.capability === capability)) {
    throw new RenderError('processing_failed', `The builtin engine has no capability ${capability}.`);
  }
  return pool.render({ capability, inputs, parameters, outputDir }, signal, onProgress);
}
