import type { Logger } from './logging.ts';

/** Lines of one kind in a window, and the length of the window in ms. */
const LINES = 20;
const EVERY_MS = 10_000;
/** Kinds that are told apart; kinds come from code, and this holds where one is built from what clients send. */
const MAX_KINDS = 1_000;

type Level = 'info' | 'warn' | 'error';

export interface ClientLogOptions {
  /** Lines of one kind that are written in a window. Default 20. */
  readonly lines?: number;
  /** Length of a window in ms. Default 10,000. */
  readonly everyMs?: number;
}

/**
 * A log for lines that a client causes as often as it likes. Of each kind the first of a window are written whole; for
 * the others one line at the end of the window says how many they were.
 *
 * `kind` is made of what the code knows, such as a route and a status, and of nothing that clients choose.
 */
export type ClientLog = Readonly<Record<Level, (kind: string, fields: object, text?: string) => void>>;

interface Window {
  said: number;
  unsaid: number;
}

export function createClientLog(
  logger: Logger,
  { lines = LINES, everyMs = EVERY_MS }: ClientLogOptions = {},
): ClientLog {
  const windows = new Map<string, Window>();

  function begin(level: Level, kind: string): Window {
    const window = { said: 0, unsaid: 0 };
    windows.set(`${level} ${kind}`, window);
    setTimeout(() => {
      windows.delete(`${level} ${kind}`);
      if (window.unsaid > 0)
        logger[level]({ kind, unsaid: window.unsaid, withinMs: everyMs }, 'left out more lines of a kind');
    }, everyMs).unref();
    return window;
  }

  const at = (level: Level) => (given: string, fields: object, text?: string) => {
    const kind = windows.size < MAX_KINDS || windows.has(`${level} ${given}`) ? given : 'other';
    const window = windows.get(`${level} ${kind}`) ?? begin(level, kind);
    if (window.said >= lines) {
      window.unsaid++;
      return;
    }
    window.said++;
    if (text === undefined) logger[level](fields);
    else logger[level](fields, text);
  };
  return { info: at('info'), warn: at('warn'), error: at('error') };
}
