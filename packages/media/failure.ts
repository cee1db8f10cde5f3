import { EngineInterruptedError, RenderError } from '@semblance/engine-api/engine';
import type { ToolExit } from './sandbox.ts';

/**
 * A fault of this machine that ended a tool: somebody else killed it, as the kernel does when memory runs out, or the
 * disk is full. The work may well be done at another time or place, whatever its input. Undefined for any other end.
 */
export function interrupted(exit: ToolExit, program = 'ffmpeg'): EngineInterruptedError | undefined {
  const fault = (what: string) => new EngineInterruptedError(what, { cause: causeOf(exit) });
  if (exit.signal === 'SIGKILL' && exit.ended === undefined) {
    return fault(`${program} was killed from outside (SIGKILL), as when memory runs out`);
  }
  if (exit.stderr.includes('No space left on device')) return fault(`${program} found no space left`);
  return undefined;
}

/**
 * Why a tool that looked into an input was ended; undefined where it ended by itself, well or not. Only processor time
 * says something of the input: on a machine that gives none, every tool stands still, whatever it is given.
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
 * Why a tool that decoded an input did not come to its end; undefined where it did, or where damage in the file is what
 * ended it: what to make of that depends on how much was decoded.
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
 * Tells whether an ffmpeg that was built without a decoder for an input says so. One that has more decoders than are
 * accepted refuses the input before, when it is looked into.
 */
export const lacksDecoder = ({ stderr }: Pick<ToolExit, 'stderr'>) =>
  /^(.*\] )?(Decoder \(codec .*\) not found|Decoding requested, but no decoder found)/m.test(stderr);

const causeOf = (exit: ToolExit) => new Error(`exit ${exit.code ?? exit.signal}: ${exit.stderr.trim()}`);
