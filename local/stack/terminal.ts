import { isAbsolute, relative } from 'node:path';
import type { SupervisorEvent } from '../supervisor.ts';

/** Time within which two SIGINTs count as one Ctrl-C, because npm forwards a Ctrl-C that the terminal also sent. */
const ONE_CTRL_C_MS = 1_000;

/**
 * Returns a signal that aborts at the first SIGINT, SIGTERM or SIGHUP. A second Ctrl-C ends this process at once;
 * its guard then ends the rest.
 */
export function endOnSignal(): AbortSignal {
  const ending = new AbortController();
  let since = 0;
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(name, () => {
      if (!ending.signal.aborted) {
        since = performance.now();
        ending.abort(new Error(`ended by ${name}`));
      } else if (name === 'SIGINT' && performance.now() - since > ONE_CTRL_C_MS) process.exit(130);
    });
  }
  return ending.signal;
}

/** Returns a listener that tells a person when a service is ready, fails, or restarts. */
export function eventPrinter(say: (line: string) => void): (event: SupervisorEvent) => void {
  return (event) => {
    const name = event.service.padEnd(14);
    switch (event.type) {
      case 'started':
        return;
      case 'ready': {
        const seconds = (event.afterMs / 1000).toFixed(1);
        say(
          event.restarts === 0
            ? `  ${name} ready after ${seconds} s`
            : `  ${name} is back after ${seconds} s`,
        );
        return;
      }
      case 'restarting':
        say(`  ${name} starts again: ${event.why}`);
        return;
      case 'failed':
        say(`  ${name} ${event.why}; starting it again in ${(event.restartInMs / 1000).toFixed(1)} s`);
    }
  };
}

/** Returns an error, its causes, and its stack unless it has a code, as lines for a person. */
export function describeFailure(error: unknown): string {
  const lines: string[] = [];
  for (let one: unknown = error; one !== undefined; one = one instanceof Error ? one.cause : undefined) {
    const text = one instanceof Error ? one.message : String(one);
    // An error may already contain the message of its cause, which is then not repeated.
    if (text && !lines.some((line) => line.includes(text)))
      lines.push(lines.length === 0 ? text : `  because: ${text}`);
  }
  if (!(error instanceof Error && 'code' in error))
    lines.push(error instanceof Error ? (error.stack ?? '') : '');
  return lines.filter(Boolean).join('\n');
}

/** Returns a path as a person would type it here: relative if it is below the current folder, otherwise absolute. */
export function shown(path: string): string {
  const below = relative(process.cwd(), path);
  return below.startsWith('..') || isAbsolute(below) ? path : below;
}
