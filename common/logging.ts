import { type DestinationStream, type Logger, pino } from 'pino';

export type { Logger };

/**
 * Fields whose values never reach a log line, in whatever object they stand: keys, tokens, signatures, signed
 * links, and callers' scripts and prompts.
 */
const SECRET_FIELDS = [
  'authorization',
  'api_key',
  'apiKey',
  'key_sha256',
  'session_token',
  'sessionToken',
  'secret',
  'signingKey',
  'token',
  'url',
  'output_url',
  'preview_url',
  'previewUrl',
  'outputUrl',
  'callback_url',
  'callbackUrl',
  'signature',
  'script',
  'prompt',
];

export interface LoggerOptions {
  readonly service: string;
  readonly level: string;
  readonly destination?: DestinationStream;
  /**
   * Longest time in ms for which lines are gathered before one write. It serves a service that logs thousands of
   * lines a second, where a write for each line would cost more than the work. Default: each line is written at
   * once.
   */
  readonly gatherMs?: number;
}

/** Length in characters at which gathered lines are written early. One write costs as much as many lines. */
const GATHER_LENGTH = 32 * 1024;

/**
 * Creates a logger that writes one JSON line per event to standard output, with ISO times and secrets replaced by
 * `[secret]`.
 */
export function createLogger(options: LoggerOptions): Logger {
  const paths = SECRET_FIELDS.flatMap((field) => [field, `*.${field}`, `*.*.${field}`, `*[*].${field}`]);
  return pino(
    {
      level: options.level,
      base: { service: options.service, pid: process.pid },
      timestamp: isoTime(),
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths, censor: '[secret]' },
      serializers: { err: pino.stdSerializers.errWithCause },
    },
    options.destination ?? standardOutput(options.gatherMs),
  );
}

/** Returns a function that formats the time as pino does, once for all lines of a millisecond. */
function isoTime(): () => string {
  let [at, text] = [Number.NaN, ''];
  return () => {
    const now = Date.now();
    if (now !== at) [at, text] = [now, `,"time":"${new Date(now).toISOString()}"`];
    return text;
  };
}

function standardOutput(gatherMs: number | undefined): DestinationStream {
  // Without a minimum length `flush` would not wait for the write under way.
  return gatherMs
    ? gathered(pino.destination({ dest: 1, sync: false, minLength: 1 }), gatherMs)
    : pino.destination({ dest: 1, sync: false, minLength: 0 });
}

/**
 * Passes lines on together. It does not use the destination's own `minLength`, which measures all gathered text
 * again, byte by byte, with every line.
 */
export function gathered(
  output: Pick<ReturnType<typeof pino.destination>, 'write' | 'flush' | 'flushSync'>,
  gatherMs: number,
): DestinationStream & { flush(callback?: (error?: Error) => void): void; flushSync(): void } {
  let lines: string[] = [];
  let length = 0;
  const pass = () => {
    if (length === 0) return;
    const text = lines.join('');
    [lines, length] = [[], 0];
    output.write(text);
  };
  const flushSync = () => {
    pass();
    output.flushSync();
  };
  setInterval(pass, gatherMs).unref();
  process.once('exit', flushSync);
  return {
    write(line) {
      lines.push(line);
      length += line.length;
      if (length >= GATHER_LENGTH) pass();
    },
    flush(callback) {
      pass();
      output.flush(callback);
    },
    flushSync,
  };
}

/** Creates a logger without output, for tests and tools. */
export function silentLogger(): Logger {
  return pino({ level: 'silent' });
}
