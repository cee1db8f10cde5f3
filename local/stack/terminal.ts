import { isAbsolute, relative } from 'node:path';
import type { SupervisorEvent } from '../supervisor.ts';

/** npm passes a Ctrl-C on to a process that has had it from the terminal: within this time both are one. */
const ONE_CTRL_C_MS = 1_000;

/**
 * Aborts at the first SIGINT, SIGTERM or SIGHUP. A second Ctrl-C ends this process at once; its guard then ends the
 * rest.
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

/** Tells a person when a service serves, ends, and serves again. */
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

/** Returns what went wrong, its causes, and what to do, in lines for a person. */
export function describeFailure(error: unknown): string {
  const lines: string[] = [];
  for (let one: unknown = error; one !== undefined; one = one instanceof Error ? one.cause : undefined) {
    const text = one instanceof Error ? one.message : String(one);
    // A cause whose words the error has taken over already says nothing new.
    if (text && !lines.some((line) => line.includes(text)))
      lines.push(lines.length === 0 ? text : `  because: ${text}`);
  }
  if (!(error instanceof Error && 'code' in error))
    lines.push(error instanceof Error ? (error.stack ?? '') : '');
  return lines.filter(Boolean).join('\n');
}

/** A path as a person would type it here: relative when it lies below the current folder, else absolute. */
export function shown(path: string): string {
  const below = relative(process.cwd(), path);
  return below.startsWith('..') || isAbsolute(below) ? path : below;
}
