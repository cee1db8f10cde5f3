import { EngineInterruptedError } from './engine.ts';

/** Error codes of the machine, not of the work: no space, no files, no processes, no memory, an unreadable disk. */
const EXHAUSTED: readonly unknown[] = ['ENOSPC', 'EDQUOT', 'EMFILE', 'ENFILE', 'EAGAIN', 'ENOMEM', 'EIO'];
/** Number of nested causes that are examined, because causes may form a cycle. */
const MAX_CAUSES = 10;

/**
 * Returns the temporary fault behind an error when a system call failed for want of a resource, also when a refusal
 * hides it. Returns undefined for any other error. The message contains no path, because the job record may show
 * it.
 */
export function exhausted(error: unknown): EngineInterruptedError | undefined {
  let at = error;
  for (let depth = 0; at instanceof Error && depth < MAX_CAUSES; depth++, at = at.cause) {
    const { code, syscall } = at as NodeJS.ErrnoException;
    if (typeof syscall !== 'string' || !EXHAUSTED.includes(code)) continue;
    // The path of a program that could not be started follows the call.
    const [call] = syscall.split(' ');
    const message = `the machine of the engine lacks something (${code}, ${call})`;
    return new EngineInterruptedError(message, { cause: error });
  }
  return undefined;
}
