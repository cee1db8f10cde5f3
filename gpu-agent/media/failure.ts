import { RenderError } from '../engines/engine.ts';
import type { ToolExit } from './sandbox.ts';

/** What the end of a tool that read an input means for the input's owner; undefined for a good end. */
export function failureOf(exit: ToolExit, what: string): RenderError | undefined {
  const tooManyPixels = exit.stderr.includes('exceeds specified max pixel count');
  if (exit.code === 0 && !tooManyPixels) return undefined;
  const cause = new Error(`exit ${exit.code ?? exit.signal}: ${exit.stderr.trim()}`);
  if (exit.signal === 'SIGXCPU' || exit.signal === 'SIGKILL') {
    return new RenderError('input_too_large', `${what} takes too long to decode.`, { cause });
  }
  if (/Cannot allocate memory|std::bad_alloc/.test(exit.stderr)) {
    return new RenderError('input_too_large', `${what} needs more memory to decode than is given to one.`, {
      cause,
    });
  }
  if (tooManyPixels) {
    return new RenderError('input_too_large', `${what} has larger frames than are taken.`, { cause });
  }
  return new RenderError('unsupported_format', `${what} is damaged and cannot be decoded.`, { cause });
}
