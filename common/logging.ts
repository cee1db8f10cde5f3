import { type DestinationStream, type Logger, pino } from 'pino';

export type { Logger };

/**
 * Fields that never reach a log line whatever object they ride in: keys, tokens, signatures, signed links, scripts and
 * prompts of callers.
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
   * Longest time in ms that lines may be gathered before they are written together: for a service that logs thousands
   * of lines a second, where a write for each would cost more than the work. Default: each line at once.
   */
  readonly gatherMs?: number;
}

const GATHER_BYTES = 8 * 1024;

/** One JSON line an event on standard output, with ISO times and secrets replaced by `[secret]`. */
export function createLogger(options: LoggerOptions): Logger {
  const paths = SECRET_FIELDS.flatMap((field) => [field, `*.${field}`, `*.*.${field}`, `*[*].${field}`]);
  return pino(
    {
      level: options.level,
      base: { service: options.service, pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths, censor: '[secret]' },
      serializers: { err: pino.stdSerializers.errWithCause },
    },
    options.destination ?? standardOutput(options.gatherMs),
  );
}

function standardOutput(gatherMs: number | undefined): DestinationStream {
  const gathering = gatherMs ? { minLength: GATHER_BYTES, periodicFlush: gatherMs } : { minLength: 0 };
  return pino.destination({ dest: 1, sync: false, ...gathering });
}

/** For tests and tools that have nothing to say. */
export function silentLogger(): Logger {
  return pino({ level: 'silent' });
}
