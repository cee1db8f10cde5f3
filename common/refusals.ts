import { ConfigError } from './config.ts';
import { describeError } from './errors.ts';

/** A user, or its password, may appear a moment after the service that uses it. */
const PATIENCE_MS = 15_000;

export interface Refusals {
  /**
   * Counts an attempt that failed.
   * @param refused the server refused the credentials, so that only others help
   * @throws ConfigError once nothing but refusals has come for a while
   */
  count(error: unknown, refused: boolean): void;
}

/**
 * Ends the process when a server refuses its credentials for a while and never accepted them, so that the supervisor starts
 * it again with the credentials of the day. The process cannot read them anew by itself.
 * @param setting names the setting that has the credentials
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
