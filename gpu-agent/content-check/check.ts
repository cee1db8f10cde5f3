import type { Capability, MediaKind } from '@semblance/engine-api/capabilities';

/** A file to be checked. */
export interface CheckedFile {
  /** Role of an input, or `output`. */
  readonly role: string;
  readonly path: string;
  readonly kind: MediaKind;
  /** Known for outputs only. */
  readonly contentType?: string;
}

/**
 * Subject of a check: all that a job or a live session brings, before an engine opens it; or the output of a job,
 * before it is stored.
 */
export interface CheckSubject {
  readonly phase: 'input' | 'output';
  /** Name of the job, or id of the session. */
  readonly jobName: string;
  readonly capability: Capability;
  readonly parameters: Readonly<Record<string, string>>;
  readonly files: readonly CheckedFile[];
}

/** @param reason for the caller; it must not help to evade the check */
export type Verdict = { readonly allowed: true } | { readonly allowed: false; readonly reason: string };

export const ALLOWED: Verdict = { allowed: true };

export interface ContentCheck {
  /** Name of the check in the settings. */
  readonly name: string;
  /** Description of what it checks, for the agent's status. */
  readonly about: string;
  /**
   * Checks the configuration before the first job. Undefined when there is none.
   * @throws ContentCheckError
   */
  assertUsable?(): Promise<void>;
  /**
   * Returns only when everything was checked.
   * @throws ContentCheckError when it cannot decide; RenderError when the file itself is the cause; or the signal's
   * reason
   */
  check(subject: CheckSubject, signal: AbortSignal): Promise<Verdict>;
  close(): Promise<void>;
}

/** A check did not work. Another attempt may succeed. */
export class ContentCheckError extends Error {
  override readonly name = 'ContentCheckError';
  readonly code = 'content_check_failed';
  readonly retryable = true;
}
