import { EngineInterruptedError } from '@semblance/engine-api/engine';

/**
 * Returns the error for work that was lost when a thread ended by itself. The work may be tried again, as after the
 * death of a process. The text of the thread's error goes to the log only.
 * @param error the error that ended the thread; undefined if there was none
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
