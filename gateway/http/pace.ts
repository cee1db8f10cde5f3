import { ApiError } from '@semblance/common/errors';

/** How slow a client may be with its body, so that no connection, file or buffer is held for ever by a few bytes. */
export interface BodyLimits {
  /** Longest wait for the next bytes, milliseconds. */
  readonly idleMs: number;
  /** Longest time from the first look at the body to its last byte, milliseconds. */
  readonly totalMs: number;
  /** Over this much time spent waiting for bytes, milliseconds, at least so many must come. */
  readonly rateWindowMs: number;
  readonly leastBytesPerSecond: number;
}

export interface Pace {
  arrived(bytes: number): void;
  /** Notes a wait for bytes that ended with some. @throws ApiError `invalid_input` when too few came for too long */
  waited(ms: number): void;
  /** How long the next wait may be, and what to refuse the body with if nothing comes in that time. */
  nextWait(): { readonly ms: number; readonly refusal: () => ApiError };
  /** @throws ApiError `invalid_input` when the time for the whole body is up */
  check(): void;
}

/**
 * Watches how a body arrives. Only the time spent waiting for the client counts towards its rate: a consumer that is
 * slow itself makes nobody slow. The time for the whole body counts from now, whoever is to blame.
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
