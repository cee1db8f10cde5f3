import { EngineInterruptedError } from './engine.ts';

/** Of the machine and not of the work: no space, no files, no processes, no memory, a disk that cannot be read. */
const EXHAUSTED: readonly unknown[] = ['ENOSPC', 'EDQUOT', 'EMFILE', 'ENFILE', 'EAGAIN', 'ENOMEM', 'EIO'];
/** Of causes that go round in a circle, so many are looked at. */
const MAX_CAUSES = 10;

/**
 * The fault of the moment behind an error, where a call to the system failed for want of something that the machine
 * lacks now: also behind a refusal, as of a file that could not be opened. Undefined for any other error. Its message
 * names no path: the job's record may show it.
 */
export function exhausted(error: unknown): EngineInterruptedError | undefined {
  let at = error;
  for (let depth = 0; at instanceof Error && depth < MAX_CAUSES; depth++, at = at.cause) {
    const { code, syscall } = at as NodeJS.ErrnoException;
    if (typeof syscall !== 'string' || !EXHAUSTED.includes(code)) continue;
    // Of a program that could not be started, its path follows.
    const [call] = syscall.split(' ');
    const message = `the machine of the engine lacks something (${code}, ${call})`;
    return new EngineInterruptedError(message, { cause: error });
  }
  return undefined;
}
