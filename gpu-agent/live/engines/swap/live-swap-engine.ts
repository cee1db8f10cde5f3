import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs } from '@semblance/common/async/backoff';
import { describeError } from '@semblance/common/errors';
import { readPrompt } from '@semblance/common/live-prompt';
import type { Logger } from '@semblance/common/logging';
import { RenderError } from '@semblance/engine-api/engine';
import {
  BadMessageError,
  ChangeRefusedError,
  type LiveChange,
  type LiveEngine,
  type LiveStream,
} from '@semblance/engine-api/live-engine';
import {
  type LiveLook,
  type LiveVideo,
  LiveVideoError,
  PICTURE_LIMITS,
  RECOMMENDED,
} from '@semblance/engine-builtin/live-swap/types';

const LONGEST_PAUSE_MS = 30_000;

export interface LiveSwapEngineOptions {
  /**
   * Creates the threads, which are not warm yet.
   * @param onCrash called for each thread that ended by itself or hung
   */
  readonly createVideo: (onCrash: (error: Error) => void) => LiveVideo;
  /** Ids of the available characters. */
  readonly characters: readonly string[];
  readonly logger: Logger;
  /** Called when slots or warmth changed. */
  readonly onChange: () => void;
  readonly onCrash: () => void;
  /** Returns the pause before threads are warmed up again after this many consecutive failures, in ms. */
  readonly retryDelayMs?: (failures: number) => number;
}

/**
 * Creates Live Swap Pro. `settings.prompt` selects the face; the input `face` is the uploaded picture that it
 * names. If the prompt is not understood, or the picture is unusable, the caller's own face stays. Pictures then
 * pass unchanged, and the first frame has a `note` with the reason.
 */
export function createLiveSwapEngine(options: LiveSwapEngineOptions): LiveEngine {
  const { logger, onChange, characters } = options;
  const closing = new AbortController();
  /** Number of threads that are not warm. */
  let cold = Number.POSITIVE_INFINITY;
  let warming: Promise<void> | undefined;
  const video = options.createVideo((error) => {
    options.onCrash();
    logger.warn({ err: error }, `${error.message}; it is replaced`);
    cold++;
    onChange();
    warm().catch(() => {});
  });

  /** Warms up all threads, and repeats that until it succeeds. */
  function warm(): Promise<void> {
    warming ??= untilWarm().finally(() => {
      warming = undefined;
    });
    return warming;
  }

  async function untilWarm(): Promise<void> {
    for (let failures = 0; ; ) {
      const before = cold;
      try {
        await video.warmUp(closing.signal);
        // Another thread ended during the warm-up.
        if (cold > before) continue;
        cold = 0;
        onChange();
        return;
      } catch (error) {
        closing.signal.throwIfAborted();
        failures++;
        logger.error({ err: error }, `cannot warm up threads of live swaps: ${describeError(error)}`);
        const pauseMs = (options.retryDelayMs ?? retryDelayMs)(failures);
        await delay(pauseMs, undefined, { signal: closing.signal, ref: false });
      }
    }
  }

  async function open(look: LiveLook, note: string | undefined, signal: AbortSignal): Promise<LiveStream> {
    const stream = await video.open({ look, signal });
    return {
      firstFrame: JSON.stringify({ ...RECOMMENDED, ...(note === undefined ? {} : { note }) }),
      format: {
        kind: 'picture',
        ...RECOMMENDED,
        maxSide: PICTURE_LIMITS.side,
        maxPixels: PICTURE_LIMITS.pixels,
      },
      maxMessageBytes: PICTURE_LIMITS.bytes,
      async transform(message) {
        try {
          return (await stream.transform(message)).picture;
        } catch (error) {
          if (error instanceof LiveVideoError && error.code === 'bad_frame')
            throw new BadMessageError(error.message, { cause: error });
          throw error;
        }
      },
      async change(to) {
        const look = lookAskedFor(to, characters);
        try {
          await stream.change(look);
          return {};
        } catch (error) {
          throw error instanceof RenderError ? refusedBy(error) : error;
        }
      },
      close: () => stream.close(),
    };
  }

  return {
    capability: 'full-live-swap',
    delivery: 'newest',
    get slots() {
      return Math.max(0, video.slots - cold);
    },
    get warming() {
      return cold > 0 && !closing.signal.aborted;
    },
    warmUp: (signal) => {
      signal.addEventListener('abort', () => closing.abort(signal.reason), { once: true });
      return warm();
    },
    check() {},
    async open({ settings, inputs, unusable, signal }) {
      const { look, note } = lookOf(settings.prompt, inputs.face, unusable?.face, characters);
      try {
        return await open(look, note, signal);
      } catch (error) {
        // Only an uploaded face can be refused with a RenderError.
        if (!(error instanceof RenderError) || look.kind !== 'face') throw error;
        return open({ kind: 'own' }, keptFor(error.message), signal);
      }
    },
    async close() {
      closing.abort(new Error('live swaps end'));
      await video.close();
    },
  };
}

/** @param unusable why the uploaded picture cannot be used */
export function lookOf(
  prompt: string | undefined,
  face: string | undefined,
  unusable: string | undefined,
  characters: readonly string[],
): { readonly look: LiveLook; readonly note?: string } {
  const asked = readPrompt(prompt, characters);
  if (asked.kind === 'own') return { look: { kind: 'own' }, note: asked.reason };
  if (asked.kind === 'character') return { look: asked };
  if (face !== undefined) return { look: { kind: 'face', path: face } };
  return { look: { kind: 'own' }, note: keptFor(unusable ?? 'the uploaded picture was not handed on.') };
}

/**
 * Returns the face that a prompt in mid-session asks for. A prompt that is not followed would take the present face off, and
 * so it is refused.
 * @throws ChangeRefusedError
 */
export function lookAskedFor(
  { settings, inputs, unusable }: LiveChange,
  characters: readonly string[],
): LiveLook {
  const asked = readPrompt(settings.prompt, characters);
  if (asked.kind === 'character') return asked;
  if (asked.kind === 'own') {
    if (asked.fault === undefined) return { kind: 'own' };
    throw new ChangeRefusedError('invalid_input', asked.fault);
  }
  if (inputs.face !== undefined) return { kind: 'face', path: inputs.face };
  throw new ChangeRefusedError('unsupported_format', unusable?.face ?? 'The picture was not handed on.');
}

/** Returns the refusal of a face that an engine cannot use. */
function refusedBy(error: RenderError): ChangeRefusedError {
  return new ChangeRefusedError(error.code, error.message, { cause: error });
}

export const keptFor = (why: string) => `Your own face is kept: ${why}`;

function retryDelayMs(failures: number): number {
  return backoffMs(failures - 1, 500, LONGEST_PAUSE_MS);
}
