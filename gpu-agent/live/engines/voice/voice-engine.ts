import { setImmediate as otherWork } from 'node:timers/promises';
import { createBackoff } from '@semblance/common/async/backoff';
import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import type { LiveEngine, LiveStream, OpenLiveOptions } from '@semblance/engine-api/live-engine';
import { createVoiceConverter, type VoiceConverter } from '@semblance/voice/converter';
import { engineFor } from '@semblance/voice/engine-for';
import type { ModelVoices } from '@semblance/voice/rvc/model-voices';
import { CONTEXT_MS } from '@semblance/voice/rvc/rvc-converter';
import {
  assertWhole,
  bytesOf,
  passThrough,
  SAMPLE_BYTES,
  samplesOf,
  soundOf,
  voiceOf,
} from './sound-messages.ts';
import { type VoiceThreadStream, VoiceThreads, type VoiceThreadsOptions } from './voice-threads.ts';
import { warmUpConversion } from './warm-up.ts';

/** Streams per thread. Per stream, the work beside the networks takes up to 6 % of a core. */
export const STREAMS_PER_THREAD = 16;
/** Larger messages are converted in pieces of 0.1 s, so that they do not block other streams of the thread. */
const PIECES_PER_SECOND = 10;
/** Longest pause before models are loaded again, in ms. */
const RELOAD_MAX_MS = 30_000;

export interface VoiceEngineOptions {
  /** Most sessions at once. */
  readonly slots: number;
  /** Whether the owner gave `slots`. Otherwise there are fewer if the models carry fewer. */
  readonly slotsGiven?: boolean;
  readonly sampleRate: number;
  /** Samples that clients are asked to send in one message. */
  readonly chunkFrames: number;
  /** Length of the sound that models process for each block, in ms; default: the shortest. */
  readonly contextMs?: number;
  readonly logger: Logger;
  /**
   * Loads the owner's models that speak with voices; default: none. `onEnd` is called when the models can run no
   * more. It rejects for a fault of the moment, such as a full device, and is then called again.
   */
  readonly openModels?: (
    signal: AbortSignal,
    onEnd: (reason: string) => void,
  ) => Promise<ModelVoices | undefined>;
  /** Called when slots or warmth changed. */
  readonly onChange: () => void;
  readonly onCrash: () => void;
  /** Overrides of the threads' entry file and timing, for tests. */
  readonly threads?: Partial<Pick<VoiceThreadsOptions, 'entry' | 'hungMs' | 'restartDelayMs'>>;
  /** Pause before the models are loaded again, in ms; it doubles up to 30 s. Default 1,000. */
  readonly reloadMs?: number;
}

export interface VoiceEngine extends LiveEngine {
  /** Ids of the threads, for diagnosis. */
  readonly threadIds: readonly number[];
  /** Number of open streams in threads. */
  readonly streams: number;
  open(options: OpenLiveOptions): Promise<LiveStream>;
}

/**
 * Creates Voice Swap. `settings.voice` is the voice's definition as JSON; without it sound passes unchanged, at
 * once. A voice that names a model of this node is spoken with that model, any other with `builtin`; the log says
 * which. Sound that a converter still holds when its client leaves is not sent.
 *
 * `builtin` takes 0.1 ms per message and converts in the thread that receives it, because waking another thread takes longer. The work beside a model takes ten times as long, so it has threads.
 */
export function createVoiceEngine(options: VoiceEngineOptions): VoiceEngine {
  const { sampleRate, chunkFrames, logger } = options;
  let { slots } = options;
  let models: ModelVoices | undefined;
  /** Created when the models are loaded. */
  let threads: VoiceThreads | undefined;
  let converts = false;
  const closing = new AbortController();
  const common = soundOf({ sampleRate, chunkFrames });
  const mostSamples = Math.ceil(sampleRate / PIECES_PER_SECOND);

  async function load(signal: AbortSignal): Promise<void> {
    const loaded = Promise.withResolvers<ModelVoices | undefined>();
    let over = false;
    const onEnd = async (reason: string) => {
      // Each run that a device fails says so.
      if (over) return;
      over = true;
      logger.error(`using no voice models until they are loaded again: ${reason}`);
      models = undefined;
      // What they hold of a full device is free only when they are closed.
      await (await loaded.promise)?.close();
      void loadAgain();
    };
    const opened = await options.openModels?.(signal, (reason) => void onEnd(reason));
    loaded.resolve(opened);
    if (closing.signal.aborted) await opened?.close();
    else models = opened;
  }

  /** Loads the models until that works. Meanwhile voices are converted without them. */
  async function loadAgain(): Promise<void> {
    const { signal } = closing;
    const backoff = createBackoff({ baseMs: options.reloadMs ?? 1_000, maxMs: RELOAD_MAX_MS });
    for (let done = false; !done; ) {
      await backoff.wait(signal);
      if (signal.aborted) return;
      done = await load(signal).then(
        () => true,
        (error: unknown) => {
          if (!signal.aborted) logger.error(`cannot load voice models: ${describeError(error)}`);
          return signal.aborted;
        },
      );
    }
    if (!models || signal.aborted) return;
    logger.info('using voice models again');
    threads ??= startThreads(options);
    await threads.warmUp(signal).catch((error: unknown) => {
      if (!signal.aborted) logger.error(`cannot start the threads of voices: ${describeError(error)}`);
    });
  }

  return {
    capability: 'voice',
    delivery: 'every',
    get slots() {
      if (!converts) return 0;
      return threads ? Math.min(slots, threads.capacity) : slots;
    },
    get warming() {
      return !converts || threads?.warming === true;
    },
    get threadIds() {
      return threads?.threadIds ?? [];
    },
    get streams() {
      return threads?.streams ?? 0;
    },
    async warmUp(signal) {
      await load(signal).catch((error: unknown) => {
        signal.throwIfAborted();
        logger.error(`using no voice models until they can be loaded: ${describeError(error)}`);
        void loadAgain();
      });
      await warmUpConversion(signal);
      if (models) {
        slots = slotsWith(models.carries, options);
        threads = startThreads({ ...options, slots });
      }
      converts = true;
      options.onChange();
      await threads?.warmUp(signal);
    },
    check(settings) {
      voiceOf(settings);
    },
    async open({ settings, signal, onFailed }) {
      const voice = voiceOf(settings);
      if (!voice) return { ...common, transform: passThrough, close: async () => {} };
      const { engine, models: speaking } = engineFor(voice, models);
      if (voice.model !== undefined)
        logger.info({ voice: voice.id, model: voice.model, engine }, 'a voice that names a model');
      if (speaking && !speaking.index && (voice.indexRate ?? 0) > 0)
        logger.warn(
          { voice: voice.id, model: voice.model },
          'a voice asks for an index, and its model has none in the manifest: it is spoken without',
        );
      if (!threads || !speaking)
        return { ...common, ...converting(createVoiceConverter({ sampleRate, voice }), mostSamples) };
      const needs = { mostSamples, onEnd: onFailed, run: models?.run };
      const conversion = { sampleRate, voice, models: speaking, contextMs: options.contextMs ?? CONTEXT_MS };
      const stream = await threads.open(conversion, needs);
      if (signal.aborted) {
        stream.close();
        throw signal.reason;
      }
      return { ...common, ...convertingElsewhere(stream, mostSamples) };
    },
    async close() {
      closing.abort(new Error('the engine is closing'));
      await threads?.close();
      await models?.close();
    },
  };
}

/** Returns the slots that voices of models leave, and tells the owner where they are too many. */
function slotsWith(carries: number, { slots, slotsGiven, logger }: VoiceEngineOptions): number {
  if (carries < 1)
    logger.warn('the voice models take so long for a block that even one session may fall behind');
  if (slots <= carries) return slots;
  if (!slotsGiven) return Math.max(1, carries);
  logger.warn(
    { slots, carries },
    'SEMBLANCE_LIVE_VOICE_SLOTS is above what the voice models carry: sessions fall behind when all are taken',
  );
  return slots;
}

function startThreads({ slots, logger, onChange, onCrash, threads }: VoiceEngineOptions): VoiceThreads {
  const count = Math.ceil(slots / STREAMS_PER_THREAD);
  const streamsPerThread = Math.ceil(slots / count);
  return new VoiceThreads({ threads: count, streamsPerThread, logger, onChange, onCrash, ...threads });
}

function converting(converter: VoiceConverter, piece: number): Pick<LiveStream, 'transform' | 'close'> {
  return {
    async transform(message) {
      assertWhole(message);
      const samples = samplesOf(message);
      if (samples.length <= piece) return bytesOf(converter.push(samples));
      const out = new Int16Array(samples.length);
      for (let at = 0; at < samples.length; at += piece) {
        if (at > 0) await otherWork();
        out.set(converter.push(samples.subarray(at, at + piece)), at);
      }
      return bytesOf(out);
    },
    async close() {},
  };
}

function convertingElsewhere(
  stream: VoiceThreadStream,
  piece: number,
): Pick<LiveStream, 'transform' | 'close'> {
  const pieceBytes = piece * SAMPLE_BYTES;
  return {
    async transform(message) {
      assertWhole(message);
      if (message.length <= pieceBytes) return stream.convert(message);
      const out = new Uint8Array(message.length);
      for (let at = 0; at < message.length; at += pieceBytes)
        out.set(await stream.convert(message.subarray(at, at + pieceBytes)), at);
      return out;
    },
    async close() {
      stream.close();
    },
  };
}
