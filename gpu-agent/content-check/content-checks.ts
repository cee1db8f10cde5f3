import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { RenderError } from '@semblance/engine-api/engine';
import { allowAll } from './allow-all.ts';
import { type CheckSubject, type ContentCheck, ContentCheckError, type Verdict } from './check.ts';
import { grpcHook } from './grpc-hook.ts';
import { hashList } from './hash-list/hash-list.ts';
import { httpHook } from './http-hook.ts';
import { nudity } from './nudity/nudity.ts';
import type { CheckName, ContentCheckSettings } from './settings.ts';
import { wordList } from './word-list.ts';

/** Statement about the checks in the status of the GpuAgent. */
export interface ContentCheckStatement {
  readonly checks: string[];
  /** Whether subjects are rendered and stored although a check did not work. */
  readonly allowsUnchecked: boolean;
  readonly message: string;
}

export type CheckResult = 'allowed' | 'rejected' | 'failed';

/** All checks of an agent. */
export interface ContentChecks {
  readonly statement: ContentCheckStatement;
  /**
   * Returns when every check allowed the subject.
   * @throws RenderError `content_rejected`, or for an unreadable file; ContentCheckError when a check could not
   * decide;
   *   the signal's reason
   */
  assertAllowed(subject: CheckSubject, options: AllowedOptions): Promise<void>;
  close(): Promise<void>;
}

export interface AllowedOptions {
  readonly signal: AbortSignal;
  readonly logger: Logger;
  /** Time for all checks together, in ms; a check without a verdict by then counts as failed. */
  readonly withinMs?: number;
  /**
   * Returns the subject for the remaining checks after one found an unreadable file. Default: the error is thrown.
   */
  readonly instead?: (unreadable: RenderError) => CheckSubject;
}

export interface ContentChecksOptions {
  readonly settings: ContentCheckSettings;
  /** Nice value of processes that decode files here, as for renders. */
  readonly nice: number;
  readonly logger: Logger;
  /** Called after each check. */
  readonly onResult: (check: string, phase: CheckSubject['phase'], result: CheckResult) => void;
}

/** @throws ContentCheckError when the configuration of a check is unusable, such as a malformed list */
export async function createContentChecks({
  settings,
  nice,
  logger,
  onResult,
}: ContentChecksOptions): Promise<ContentChecks> {
  const make: Readonly<Record<CheckName, () => ContentCheck>> = {
    'allow-all': () => allowAll,
    'hash-list': () =>
      hashList({
        list: settings.hashList,
        distance: settings.hashDistance,
        timeoutMs: settings.timeoutMs,
        nice,
        logger,
      }),
    nudity: () =>
      nudity({ threshold: settings.nudityThreshold, timeoutMs: settings.timeoutMs, nice, logger }),
    'word-list': () => wordList(settings.wordList),
    http: () => httpHook({ ...settings, logger }),
    grpc: () => grpcHook({ ...settings, url: settings.grpcUrl, logger }),
  };
  const checks = settings.names.map((name) => make[name]());
  for (const check of checks) await check.assertUsable?.();
  const statement = stated(checks, settings.allowUnchecked);
  const looksAtNothing = checks.every((check) => check === allowAll);
  if (looksAtNothing || settings.allowUnchecked) logger.warn(statement.message);
  else logger.info(statement.message);

  async function passes(
    check: ContentCheck,
    subject: CheckSubject,
    { signal, logger: log }: AllowedOptions,
    late: AbortSignal | undefined,
  ): Promise<void> {
    const { phase } = subject;
    let verdict: Verdict;
    try {
      verdict = await check.check(subject, late ? AbortSignal.any([signal, late]) : signal);
    } catch (error) {
      signal.throwIfAborted();
      // An unreadable input is the caller's fault; an unreadable output is ours.
      if (error instanceof RenderError && phase === 'input') throw error;
      onResult(check.name, phase, 'failed');
      const failure = late?.aborted ? TOO_LATE(error) : asCheckError(error);
      if (!settings.allowUnchecked) throw failure;
      log.warn(
        { check: check.name, phase, reason: describeError(failure) },
        'let the file through without a check',
      );
      return;
    }
    onResult(check.name, phase, verdict.allowed ? 'allowed' : 'rejected');
    if (verdict.allowed) return;
    log.warn({ check: check.name, phase, reason: verdict.reason }, 'the content check rejected the work');
    throw new RenderError('content_rejected', verdict.reason);
  }

  return {
    statement,
    async assertAllowed(subject, options) {
      // Checks run in order, so that a subject rejected by a cheap check is not sent to the next.
      const { withinMs, instead } = options;
      const late = withinMs === undefined ? undefined : AbortSignal.timeout(withinMs);
      let looked = subject;
      for (const check of checks) {
        try {
          await passes(check, looked, options, late);
        } catch (error) {
          if (!instead || !(error instanceof RenderError) || error.code === 'content_rejected') throw error;
          looked = instead(error);
        }
      }
    },
    async close() {
      await Promise.all(checks.map((check) => check.close()));
    },
  };
}

const TOO_LATE = (cause: unknown) => new ContentCheckError('there was no time left for it', { cause });

function asCheckError(error: unknown): ContentCheckError {
  if (error instanceof ContentCheckError) return error;
  return new ContentCheckError(describeError(error), { cause: error });
}

function stated(checks: readonly ContentCheck[], allowsUnchecked: boolean): ContentCheckStatement {
  const about = checks.map(({ name, about }) => `${name} (${about})`).join('; ');
  const nothing = checks.every((check) => check === allowAll);
  const failing = allowsUnchecked
    ? ' What cannot be checked is let through.'
    : ' What cannot be checked is tried again, and fails in the end.';
  return {
    checks: checks.map(({ name }) => name),
    allowsUnchecked,
    message: nothing ? 'No content check: whatever comes is rendered.' : `Checked by ${about}.${failing}`,
  };
}
