import { EngineInterruptedError } from '@semblance/engine-api/engine';

/**
 * Returns what a thread that ended by itself takes with it: as with a process that died, another try may succeed.
 * What its error says is for the log, and not part of the message.
 * @param error what it ended with; undefined where it ended without one
 */
export function threadEnd(what: string, error: unknown, code: number): EngineInterruptedError {
  const outOfMemory = (error as NodeJS.ErrnoException | undefined)?.code === 'ERR_WORKER_OUT_OF_MEMORY';
  const how = outOfMemory
    ? 'out of memory'
    : error === undefined
      ? `exit status ${code}`
      : 'by an error of its own';
  return new EngineInterruptedError(`${what} ended (${how})`, { cause: error });
}
