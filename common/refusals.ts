import { ConfigError } from './config.ts';
import { describeError } from './errors.ts';

/** A user may be made, or given its password, a moment after the service that is to use it. */
const PATIENCE_MS = 15_000;

export interface Refusals {
  /**
   * Counts an attempt that failed.
   * @param refused the server knows who asks and will not have them, so that only other credentials help
   * @throws ConfigError once nothing but refusals has come for a while
   */
  count(error: unknown, refused: boolean): void;
}

/**
 * For servers that a service reaches with credentials of its environment, which it cannot read anew: while they have never
 * worked, refused credentials end the process and say so, and whoever starts it again hands it those of the day.
 * @param setting what the credentials come from
 */
export function createRefusals(setting: string, now: () => number = () => performance.now()): Refusals {
  let since: number | undefined;
  return {
    count(error, refused) {
      since = refused ? (since ?? now()) : undefined;
      if (since === undefined || now() - since < PATIENCE_MS) return;
      throw new ConfigError(`The environment is not usable:\n  ${setting}: ${describeError(error)}`);
    },
  };
}
