import type { Logger } from '#common/logging.ts';
import { parseVoice, type Voice, VoiceError } from '#common/voices/voice.ts';
import { BadMessageError, type LiveEngine, LiveSettingsError, type LiveStream } from '../../live-engine.ts';
import { engineFor } from '../../voice/open-converter.ts';
import type { ModelVoices } from '../../voice/rvc/model-voices.ts';
import { type VoiceThreadStream, VoiceThreads, type VoiceThreadsOptions } from './voice-threads.ts';

/**
 * Streams of one thread: at 1.6 % of a core each they take half of it, so that a chunk seldom waits for those of others.
 */
export const STREAMS_PER_THREAD = 32;
/** Larger messages go through a thread in pieces of 0.1 s, so that they do not keep it from other streams. */
const PIECES_PER_SECOND = 10;
const SAMPLE_BYTES = 2;

export interface VoiceEngineOptions {
  /** Sessions at once. */
  readonly slots: number;
  readonly sampleRate: number;
  /** What clients are asked to send in one message, samples. */
  readonly chunkFrames: number;
  readonly logger: Logger;
  /** Loads the owner's models that speak with voices; default: there are none. `onEnd`: they run no more. */
  readonly openModels?: (
    signal: AbortSignal,
    onEnd: (reason: string) => void,
  ) => Promise<ModelVoices | undefined>;
  /** Slots or warmth changed. */
  readonly onChange: () => void;
  readonly onCrash: () => void;
  /** What threads are started from, and how patiently they are watched. */
  readonly threads?: Partial<Pick<VoiceThreadsOptions, 'entry' | 'hungMs' | 'restartDelayMs'>>;
}

export interface VoiceEngine extends LiveEngine {
  /** Of its threads, for diagnosis. */
  readonly threadIds: readonly number[];
  /** Streams open in threads. */
  readonly streams: number;
}

/**
 * Voice Swap: `settings.voice` is the voice's definition as JSON; without it sound passes through sample for sample, at
 * once. A voice that names a model of this node's is spoken with by that, every other by `builtin`; which it was is
 * logged. What a converter still holds when a client leaves is not sent.
 */
export function createVoiceEngine(options: VoiceEngineOptions): VoiceEngine {
  const { slots, sampleRate, chunkFrames, logger } = options;
  let models: ModelVoices | undefined;
  const threads = new VoiceThreads({
    threads: Math.ceil(slots / STREAMS_PER_THREAD),
    streamsPerThread: Math.ceil(slots / Math.ceil(slots / STREAMS_PER_THREAD)),
    logger,
    onChange: options.onChange,
    onCrash: options.onCrash,
    ...options.threads,
  });
  const common = {
    firstFrame: JSON.stringify({ sample_rate: sampleRate, chunk_frames: chunkFrames }),
    format: { kind: 'voice', sampleRate, chunkFrames },
    // A second: longer ones would be heard as pauses.
    maxMessageBytes: sampleRate * SAMPLE_BYTES,
  } as const;

  return {
    capability: 'voice',
    delivery: 'every',
    get slots() {
      return Math.min(slots, threads.capacity);
    },
    get warming() {
      return threads.warming;
    },
    get threadIds() {
      return threads.threadIds;
    },
    get streams() {
      return threads.streams;
    },
    async warmUp(signal) {
      const onEnd = (reason: string) => {
        models = undefined;
        logger.error(`voices are spoken with by builtin alone from now on: ${reason}`);
      };
      models = await options.openModels?.(signal, onEnd);
      await threads.warmUp(signal);
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
      const run = models?.run;
      const stream = await threads.open({ sampleRate, voice, models: speaking }, { onEnd: onFailed, run });
      if (signal.aborted) {
        stream.close();
        throw signal.reason;
      }
      return { ...common, ...converting(stream, Math.ceil(sampleRate / PIECES_PER_SECOND)) };
    },
    async close() {
      await threads.close();
      await models?.close();
    },
  };
}

/** @throws LiveSettingsError */
function voiceOf(settings: Readonly<Record<string, string>>): Voice | undefined {
  if (settings.voice === undefined) return undefined;
  try {
    return parseVoice(settings.voice, 'settings.voice');
  } catch (error) {
    if (error instanceof VoiceError) throw new LiveSettingsError(error.message, { cause: error });
    throw error;
  }
}

async function passThrough(message: Uint8Array): Promise<Uint8Array> {
  assertWhole(message);
  return message;
}

function converting(stream: VoiceThreadStream, piece: number): Pick<LiveStream, 'transform' | 'close'> {
  const pieceBytes = piece * SAMPLE_BYTES;
  return {
    async transform(message) {
      assertWhole(message);
      if (message.length <= pieceBytes) return new Uint8Array(await stream.convert(owned(message)));
      const out = new Uint8Array(message.length);
      for (let at = 0; at < message.length; at += pieceBytes) {
        const part = new Uint8Array(message.subarray(at, at + pieceBytes));
        out.set(new Uint8Array(await stream.convert(part.buffer)), at);
      }
      return out;
    },
    async close() {
      stream.close();
    },
  };
}

function assertWhole(message: Uint8Array): void {
  if (message.length % SAMPLE_BYTES !== 0) throw new BadMessageError('half a sample');
}

/** Memory that is the message's alone, to be given away: small buffers lie together in one. */
function owned(message: Uint8Array): ArrayBuffer {
  const alone = message.byteOffset === 0 && message.byteLength === message.buffer.byteLength;
  return (alone ? message.buffer : new Uint8Array(message).buffer) as ArrayBuffer;
}
