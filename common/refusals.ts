import { ConfigError } from './config.ts';
import { describeError } from './errors.ts';

/** Time for which refusals are tolerated, in ms: a user or its password may appear after the service that uses it. */
const PATIENCE_MS = 15_000;

export interface Refusals {
  /**
   * Counts an attempt that failed.
   * @param refused whether the server refused the credentials, so that only other credentials help
   * @throws ConfigError when every attempt was refused for a while
   */
  count(error: unknown, refused: boolean): void;
}

/**
 * Detects that a server has refused the credentials for a while and never accepted them. `count` then throws, which
 * ends the process, so that the supervisor restarts it with the current credentials. The process cannot read them
 * again by itself.
 * @param setting name of the setting that has the credentials
 */
export function createRefusals(setting: string): Refusals {
  let since: number | undefined;
  return {
    count(error, refused) {
      since = refused ? (since ?? performance.now()) : undefined;
      if (since === undefined || performance.now() - since < PATIENCE_MS) return;
      throw new ConfigError(`The environment is not usable:\n  ${setting}: ${describeError(error)}`);
    },
  };
}
