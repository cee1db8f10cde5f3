import type { AdminCalls } from './connection.ts';
import type { CommandSpec, Flags } from './usage.ts';

type Answer = Record<string, unknown> | Record<string, unknown>[];

/** One command of the admin program, by noun and verb. */
export interface Command extends CommandSpec {
  /** @returns the answer, as `--json` prints it; undefined: all was printed line by line */
  readonly run: (
    flags: Flags,
    calls: AdminCalls,
    print: (line: string) => void,
  ) => Promise<Answer | undefined>;
  /** Runs without the service; undefined: these flags need it. */
  readonly alone?: (flags: Flags) => Promise<Answer> | undefined;
}
