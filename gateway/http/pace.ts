import { ApiError } from '@semblance/common/errors';

/** Limits of a slow body, so that a few bytes cannot hold a connection, file or buffer for ever. */
export interface BodyLimits {
  /** Longest wait for the next bytes, in ms. */
  readonly idleMs: number;
  /** Longest time from the first read to the last byte, in ms. */
  readonly totalMs: number;
  /** Waiting time, in ms, over which the rate is measured. */
  readonly rateWindowMs: number;
  readonly leastBytesPerSecond: number;
}

export interface Pace {
  arrived(bytes: number): void;
  /** Records a wait that ended with bytes. @throws ApiError `invalid_input` when the rate was too low for too long */
  waited(ms: number): void;
  /** Returns the longest next wait, and the refusal if nothing arrives in that time. */
  nextWait(): { readonly ms: number; readonly refusal: () => ApiError };
  /** @throws ApiError `invalid_input` when the time for the whole body is up */
  check(): void;
}

/**
 * Measures how a body arrives. Only time spent waiting for the client counts for its rate, so that a slow consumer
 * is not blamed on the client. The time for the whole body counts from now, whatever the cause.
 */
export function createPace(limits: BodyLimits): Pace {
  const { idleMs, totalMs, rateWindowMs, leastBytesPerSecond } = limits;
  const began = performance.now();
  let [windowMs, windowBytes] = [0, 0];
  const left = () => totalMs - (performance.now() - began);
  const stalled = () => refused(`The request body stalled for ${seconds(idleMs)} s and was given up.`);
  const tooLong = () => refused(`The request body took longer than ${seconds(totalMs)} s and was given up.`);
  return {
    arrived(bytes) {
      windowBytes += bytes;
    },
    waited(ms) {
      windowMs += ms;
      if (windowMs < rateWindowMs) return;
      if (windowBytes < (leastBytesPerSecond * windowMs) / 1000)
        throw refused(
          `The request body came at less than ${leastBytesPerSecond} bytes a second and was given up.`,
        );
      [windowMs, windowBytes] = [0, 0];
    },
    nextWait() {
      const ms = left();
      return ms < idleMs ? { ms: Math.max(0, ms), refusal: tooLong } : { ms: idleMs, refusal: stalled };
    },
    check() {
      if (left() <= 0) throw tooLong();
    },
  };
}

function refused(message: string): ApiError {
  return new ApiError('invalid_input', message);
}

function seconds(ms: number): number {
  return ms / 1000;
}
