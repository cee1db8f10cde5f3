import type { AdminCalls } from './connection.ts';
import type { CommandSpec, Flags } from './usage.ts';

/** One command of the admin program, by noun and verb. */
export interface Command extends CommandSpec {
  /** @returns the answer, as `--json` prints it */
  readonly run: (
    flags: Flags,
    calls: AdminCalls,
  ) => Promise<Record<string, unknown> | Record<string, unknown>[]>;
}
