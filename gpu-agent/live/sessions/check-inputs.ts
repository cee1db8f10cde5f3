import type { Logger } from '@semblance/common/logging';
import { RenderError } from '@semblance/engine-api/engine';
import { ContentCheckError } from '../../content-check/check.ts';
import type { ContentChecks } from '../../content-check/content-checks.ts';
import type { SessionWork } from './claim-request.ts';
import type { SessionEnd } from './session-table.ts';

/**
 * Time for the checks, in ms: a gateway gives an agent 10 s to be ready, and the engine must still open the inputs.
 */
const WITHIN_MS = 6_000;

type Paths = Readonly<Record<string, string>>;

/** Inputs that an engine may open. */
export interface CheckedInputs {
  readonly inputs: Paths;
  /** Maps a role to the reason why nobody can read its input, as a sentence. */
  readonly unusable: Paths;
}

export type CheckInputs = (
  work: SessionWork,
  inputs: Paths,
  signal: AbortSignal,
  logger: Logger,
) => Promise<CheckedInputs>;

/**
 * Checks the inputs of a session's caller: the uploaded pictures and the prompt. A session without either, such as
 * any of Voice Swap, has nothing to check: the service's owner provides the voice.
 */
export function inputChecker(
  contentChecks: Pick<ContentChecks, 'assertAllowed'>,
  withinMs = WITHIN_MS,
): CheckInputs {
  return async (work, inputs, signal, logger) => {
    const { id: jobName, capability } = work;
    const { prompt } = work.settings;
    let checked: CheckedInputs = { inputs, unusable: {} };
    // Every input of a session is a picture.
    const files = Object.entries(inputs).map(([role, path]) => ({ role, path, kind: 'image' as const }));
    if (files.length === 0 && prompt === undefined) return checked;
    const parameters: Record<string, string> = prompt === undefined ? {} : { prompt };
    const subject = { phase: 'input' as const, jobName, capability, parameters, files };
    await contentChecks.assertAllowed(subject, {
      signal,
      logger,
      withinMs,
      instead({ message }) {
        // The session goes on without an unreadable picture.
        const unusable = Object.keys(inputs).map((role) => [role, message]);
        checked = { inputs: {}, unusable: Object.fromEntries(unusable) };
        return { ...subject, files: [] };
      },
    });
    return checked;
  };
}

/** Returns the end of a session that its content checks refused; undefined for any other error. */
export function endByCheck(error: unknown): SessionEnd | undefined {
  if (error instanceof RenderError && error.code === 'content_rejected')
    return { reason: undefined, message: 'a content check rejected it', rejected: error.message };
  if (error instanceof ContentCheckError)
    return { reason: 'render_failed', message: 'a content check did not work' };
  return undefined;
}
