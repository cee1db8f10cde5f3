import type { Capability, MediaKind } from '@semblance/engine-api/capabilities';

/** One file that is looked at. */
export interface CheckedFile {
  /** Role of an input, or `output`. */
  readonly role: string;
  readonly path: string;
  readonly kind: MediaKind;
  /** Known of outputs. */
  readonly contentType?: string;
}

/**
 * Holds what is looked at: all that a job or a live session brings before an engine opens it, or what came of a job
 * before that is stored.
 */
export interface CheckSubject {
  readonly phase: 'input' | 'output';
  /** Or the id of the session. */
  readonly jobName: string;
  readonly capability: Capability;
  readonly parameters: Readonly<Record<string, string>>;
  readonly files: readonly CheckedFile[];
}

/** @param reason for the caller; it says nothing that helps to get round the check */
export type Verdict = { readonly allowed: true } | { readonly allowed: false; readonly reason: string };

export const ALLOWED: Verdict = { allowed: true };

export interface ContentCheck {
  /** As in the settings. */
  readonly name: string;
  /** States what it looks at, for the agent's status. */
  readonly about: string;
  /**
   * Looks at what it was set to, before the first job. Absent: there is nothing to look at. @throws ContentCheckError
   */
  assertUsable?(): Promise<void>;
  /**
   * @throws ContentCheckError when it cannot say; RenderError when the file itself is why; or the signal's reason.
   *   What it does not throw for was looked at.
   */
  check(subject: CheckSubject, signal: AbortSignal): Promise<Verdict>;
  close(): Promise<void>;
}

/** The check could not be made. Another try may succeed. */
export class ContentCheckError extends Error {
  override readonly name = 'ContentCheckError';
  readonly code = 'content_check_failed';
  readonly retryable = true;
}
