import { setTimeout as delay } from 'node:timers/promises';
import { ConfigError } from './config.ts';
import { describeError } from './errors.ts';
import type { Logger } from './logging.ts';
import { endEarlyNoMore } from './process/end-early.ts';
import { startTracing, stopTracing } from './tracing/tracing.ts';

/** Time that an unfinished start has to undo its work after the end is requested, in ms. */
const START_END_MS = 3_000;

/**
 * Runs a service's main. Ends it in order on SIGTERM, SIGINT or the end of its supervisor. Turns an uncaught error
 * into one log line and exit code 1, so that the supervisor restarts the process from a clean state.
 *
 * `main` starts the service and resolves to its `close`. When SEMBLANCE_EXIT_ON_STDIN_EOF is set, the end of standard input counts as SIGTERM: the pipe closes when the supervisor dies, for whatever reason.
 */
export function runService(
  logger: Logger,
  main: (signal: AbortSignal) => Promise<() => Promise<void>>,
  graceMs = 10_000,
): void {
  const ending = new AbortController();

  const end = async (reason: string) => {
    if (ending.signal.aborted) return;
    logger.info({ reason }, 'ending');
    // The timer is a last resort. It is unref'd so that it does not delay a clean end.
    setTimeout(() => {
      logger.error({ graceMs }, 'did not end within the grace period');
      process.exit(1);
    }, graceMs).unref();
    ending.abort(new Error(reason));
    try {
      // A start under way ends by the signal and undoes its work.
      const close = await Promise.race([started, delay(START_END_MS, undefined)]);
      await close?.();
      await stopTracing(logger);
      logger.flush();
      process.exit(0);
    } catch (error) {
      fail(error, 'failed to end cleanly');
    }
  };
  const fail = (error: unknown, message: string) => {
    if (error instanceof ConfigError) process.stderr.write(`${error.message}\n`);
    else logger.fatal({ err: error }, `${message}: ${describeError(error)}`);
    logger.flush(() => process.exit(1));
    setTimeout(() => process.exit(1), 500).unref();
  };

  const begin = async () => {
    await startTracing(String(logger.bindings().service), logger);
    return main(ending.signal);
  };

  process.on('SIGTERM', () => void end('SIGTERM'));
  endEarlyNoMore();
  process.on('SIGINT', () => void end('SIGINT'));
  process.on('uncaughtException', (error) => fail(error, 'uncaught exception'));
  process.on('unhandledRejection', (error) => fail(error, 'unhandled rejection'));
  if (process.env.SEMBLANCE_EXIT_ON_STDIN_EOF) {
    process.stdin
      .on('end', () => void end('supervisor ended'))
      .on('error', () => void end('supervisor ended'));
    process.stdin.resume();
  }

  const started = begin().catch((error: unknown) => {
    if (!ending.signal.aborted) fail(error, 'failed to start');
    return undefined;
  });
}
