import { EngineInterruptedError, RenderError } from '@semblance/engine-api/engine';
import type { ToolExit } from './sandbox.ts';

/**
 * Returns the temporary fault that ended a tool: another process killed it, such as the kernel when memory runs
 * out, or the disk is full. The work may succeed at another time or place. Returns undefined for any other end.
 */
export function interrupted(exit: ToolExit, program = 'ffmpeg'): EngineInterruptedError | undefined {
  const fault = (what: string) => new EngineInterruptedError(what, { cause: causeOf(exit) });
  if (exit.signal === 'SIGKILL' && exit.ended === undefined) {
    return fault(`${program} was killed from outside (SIGKILL), as when memory runs out`);
  }
  if (exit.stderr.startsWith('semblance-wall: '))
    return fault(`${program} could not be started behind its walls`);
  if (exit.stderr.includes('No space left on device')) return fault(`${program} found no space left`);
  return undefined;
}

/**
 * Returns why a tool that examined an input was ended; undefined when it ended by itself. Only the CPU limit says
 * something about the input, because on an overloaded machine every tool stands still.
 */
export function stopped(exit: ToolExit, what: string): RenderError | EngineInterruptedError | undefined {
  if (exit.ended === undefined) return interrupted(exit);
  if (exit.ended === 'killed') {
    return new EngineInterruptedError('ffmpeg was given too little processor time, and killed', {
      cause: causeOf(exit),
    });
  }
  return new RenderError('input_too_large', `${what} takes too long to decode.`, { cause: causeOf(exit) });
}

/**
 * Returns why a tool did not finish decoding an input; undefined if it did. Also undefined if damage in the file
 * ended it, because the decoded share then decides.
 */
export function unfinished(exit: ToolExit, what: string): RenderError | EngineInterruptedError | undefined {
  const end = stopped(exit, what);
  if (end) return end;
  const tooLarge = (why: string) =>
    new RenderError('input_too_large', `${what} ${why}`, { cause: causeOf(exit) });
  if (/exceeds specified max pixel count/.test(exit.stderr))
    return tooLarge('has larger frames than are taken.');
  if (exit.code !== 0 && /Cannot allocate memory|std::bad_alloc/.test(exit.stderr))
    return tooLarge('needs more memory to decode than is given to one.');
  if (lacksDecoder(exit))
    return new RenderError('unsupported_format', `${what} is of a kind that is not accepted.`, {
      cause: causeOf(exit),
    });
  return undefined;
}

/**
 * Returns whether ffmpeg reports that it lacks the decoder for an input. An ffmpeg with more decoders than are
 * accepted refuses the input earlier, when it is examined.
 */
export const lacksDecoder = ({ stderr }: Pick<ToolExit, 'stderr'>) =>
  /^(.*\] )?(Decoder \(codec .*\) not found|Decoding requested, but no decoder found)/m.test(stderr);

const causeOf = (exit: ToolExit) => new Error(`exit ${exit.code ?? exit.signal}: ${exit.stderr.trim()}`);
