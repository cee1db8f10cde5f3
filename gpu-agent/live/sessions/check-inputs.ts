import type { Logger } from '@semblance/common/logging';
import { RenderError } from '@semblance/engine-api/engine';
import { ContentCheckError } from '../../content-check/check.ts';
import type { ContentChecks } from '../../content-check/content-checks.ts';
import type { SessionWork } from './claim-request.ts';
import type { SessionEnd } from './session-table.ts';

/** A client waits: a gateway gives an agent 10 s to be ready, and the engine has to open what was looked at. */
const WITHIN_MS = 6_000;

type Paths = Readonly<Record<string, string>>;

/** Holds what an engine may open. */
export interface CheckedInputs {
  readonly inputs: Paths;
  /** Role → why it can be read by nobody, as a sentence. */
  readonly unusable: Paths;
}

export type CheckInputs = (
  work: SessionWork,
  inputs: Paths,
  signal: AbortSignal,
  logger: Logger,
) => Promise<CheckedInputs>;

/**
 * Has what a session's caller brings looked at: the uploaded pictures and the prompt. A session without either, as
 * any of Voice Swap, has nothing to look at: its voice is the service owner's.
 */
export function inputChecker(
  contentChecks: Pick<ContentChecks, 'assertAllowed'>,
  withinMs = WITHIN_MS,
): CheckInputs {
  return async (work, inputs, signal, logger) => {
    const { id: jobName, capability } = work;
    const { prompt } = work.settings;
    let checked: CheckedInputs = { inputs, unusable: {} };
    // Whatever a session names is a picture.
    const files = Object.entries(inputs).map(([role, path]) => ({ role, path, kind: 'image' as const }));
    if (files.length === 0 && prompt === undefined) return checked;
    const parameters: Record<string, string> = prompt === undefined ? {} : { prompt };
    const subject = { phase: 'input' as const, jobName, capability, parameters, files };
    await contentChecks.assertAllowed(subject, {
      signal,
      logger,
      withinMs,
      instead({ message }) {
        // A picture that cannot be read is worn by nobody.
        const unusable = Object.keys(inputs).map((role) => [role, message]);
        checked = { inputs: {}, unusable: Object.fromEntries(unusable) };
        return { ...subject, files: [] };
      },
    });
    return checked;
  };
}

/** How a session ends that its content checks did not let through; undefined: that is not why it failed. */
export function endByCheck(error: unknown): SessionEnd | undefined {
  if (error instanceof RenderError && error.code === 'content_rejected')
    return { reason: undefined, message: 'a content check rejected it', rejected: error.message };
  if (error instanceof ContentCheckError)
    return { reason: 'render_failed', message: 'a content check did not work' };
  return undefined;
}
