import { describeError } from '@semblance/common/errors';
import { RenderError } from '@semblance/engine-api/engine';
import { ALLOWED, type CheckSubject, type ContentCheck, ContentCheckError } from '../check.ts';
import {
  LookerEndedError,
  type LookerProcess,
  type LookerProcessOptions,
  startLooker,
} from './looker-process.ts';
import type { LookerAnswer } from './protocol.ts';

export interface LookingCheckOptions extends LookerProcessOptions {
  /** Description of what it checks, for the agent's status. */
  readonly about: string;
  /** Checks the configuration before the process starts. @throws ContentCheckError */
  readonly assertUsable?: () => Promise<void>;
}

/** Creates a check that opens files in a process of its own, without credentials. */
export function lookingCheck(options: LookingCheckOptions): ContentCheck {
  const { name, about, logger } = options;
  const processes = new Set<LookerProcess>();
  let shared: LookerProcess | undefined;
  let closed = false;

  function start(): LookerProcess {
    const started = startLooker(options);
    processes.add(started);
    void started.ended.then(() => processes.delete(started));
    return started;
  }

  async function look(subject: CheckSubject, signal: AbortSignal): Promise<LookerAnswer> {
    if (!shared?.alive) shared = start();
    try {
      return await shared.look(subject, signal);
    } catch (error) {
      if (!(error instanceof LookerEndedError) || closed) throw error;
      logger.warn({ check: name, job: subject.jobName, reason: describeError(error) }, 'looking again');
    }
    // The shared process ended, so this look gets its own: a file that crashes a decoder then affects no other
    // look.
    const own = start();
    try {
      return await own.look(subject, signal);
    } finally {
      void own.close();
    }
  }

  return {
    name,
    about,
    async assertUsable() {
      await options.assertUsable?.();
      // The process starts here, because a live session has no time for that.
      shared = start();
    },
    async check(subject, signal) {
      // A live session may bring only text.
      if (subject.files.length === 0) return ALLOWED;
      const { found, refused, failed } = await look(subject, signal);
      if (refused) throw new RenderError(refused.code, refused.message);
      if (failed !== undefined) throw new ContentCheckError(failed);
      if (found === undefined) return ALLOWED;
      const subjectName = subject.phase === 'output' ? 'The result' : `The input ${found}`;
      return { allowed: false, reason: `${subjectName} is not allowed here.` };
    },
    async close() {
      closed = true;
      await Promise.all([...processes].map((each) => each.close()));
    },
  };
}
