import { EngineInterruptedError, RenderError } from '@semblance/engine-api/engine';
import type { Failed } from './protocol.ts';
import { LiveVideoError } from './types.ts';

/** Returns an error in the form in which a thread tells it. */
export function describeFailure(error: unknown): Failed {
  const { message, stack } = error instanceof Error ? error : new Error(String(error));
  const known =
    error instanceof LiveVideoError ||
    error instanceof RenderError ||
    error instanceof EngineInterruptedError;
  return { code: known ? error.code : undefined, message, stack };
}

/** Returns the error that a thread told. */
export function failureOf({ code, message, stack }: Failed): Error {
  switch (code) {
    case 'bad_frame':
    case 'busy':
    case 'closed':
    case 'no_slot':
    case 'unknown_character':
      return new LiveVideoError(code, message);
    case 'engine_interrupted':
      return new EngineInterruptedError(message);
    case undefined:
      return Object.assign(new Error(message), stack === undefined ? {} : { stack });
    default:
      return new RenderError(code, message);
  }
}
