import type { AdminCalls } from './connection.ts';
import type { CommandSpec, Flags } from './usage.ts';

type Answer = Record<string, unknown> | Record<string, unknown>[];

/** One command of the admin program, by noun and verb. */
export interface Command extends CommandSpec {
  /**
   * Names of the columns of a list, in their order: the command answers an array of objects that have them, and prints a
   * table, or CSV with `--csv`. Undefined: it answers no list.
   */
  readonly columns?: readonly string[];
  /** Lists within an answer that is none: names of fields, and the columns of each. */
  readonly tables?: Readonly<Record<string, readonly string[]>>;
  /** @returns the answer, as `--json` prints it; undefined: all was printed line by line */
  readonly run: (
    flags: Flags,
    calls: AdminCalls,
    print: (line: string) => void,
  ) => Promise<Answer | undefined>;
  /** Runs without the service; undefined: these flags need it. */
  readonly alone?: (flags: Flags) => Promise<Answer> | undefined;
}
