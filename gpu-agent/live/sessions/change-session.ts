import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { RenderError } from '@semblance/engine-api/engine';
import {
  ChangeRefusedError,
  type LiveChange,
  type LiveChanged,
  type LiveMedia,
} from '@semblance/engine-api/live-engine';
import { AssetError } from '../../assets/errors.ts';
import { ContentCheckError } from '../../content-check/check.ts';
import type { SessionChange, SessionWork } from './claim-request.ts';
import type { PrepareOptions } from './prepare.ts';
import { SessionNotReadyError } from './refusals.ts';

/** A session as its changes see it. */
export interface ChangeableSession {
  /** What it was opened with. */
  readonly work: SessionWork;
  /** Set when its stream is ready. */
  media: LiveMedia | undefined;
  /** Aborted when it ends. */
  readonly signal: AbortSignal;
  readonly logger: Logger;
  /** Whether a change is under way. */
  changing: boolean;
}

export interface SessionChangerOptions extends PrepareOptions {
  readonly find: (id: string) => ChangeableSession | undefined;
  /** @throws LiveSettingsError */
  readonly check: (work: SessionWork, settings: SessionChange['settings']) => void;
  /** Ends a session that cannot go on. */
  readonly fail: (id: string) => void;
}

/**
 * Returns what changes the prompt, face or voice of a session, while its media flow.
 * @throws ChangeRefusedError when nothing has changed; SessionNotReadyError; LiveSettingsError
 */
export function sessionChanger(options: SessionChangerOptions) {
  return async (to: SessionChange): Promise<LiveChanged> => {
    const session = options.find(to.id);
    if (!session?.media || session.signal.aborted) throw new SessionNotReadyError('not-ready');
    if (session.changing) throw new SessionNotReadyError('busy');
    const { work, media, signal, logger } = session;
    options.check(work, to.settings);
    session.changing = true;
    try {
      const changed = await changeMedia(options, { work, media, signal, logger }, to);
      logger.info('session changed');
      return changed;
    } catch (error) {
      if (signal.aborted) throw new SessionNotReadyError('not-ready');
      if (error instanceof ChangeRefusedError) {
        // Only faults of ours are told in words: others may repeat what the client wrote.
        const why = error.code === 'internal_error' ? `: ${describeError(error.cause)}` : '';
        logger.info({ code: error.code }, `a change of the session was refused${why}`);
        throw error;
      }
      logger.warn({ err: error }, `cannot change the session: ${describeError(error)}`);
      options.fail(to.id);
      throw new SessionNotReadyError('not-ready');
    } finally {
      session.changing = false;
    }
  };
}

interface Changed extends Pick<ChangeableSession, 'work' | 'signal' | 'logger'> {
  readonly media: LiveMedia;
}

/** Fetches the new inputs and checks them, as at the opening, before the engine gets them. */
async function changeMedia(
  options: PrepareOptions,
  { work, media, signal, logger }: Changed,
  { settings, inputs }: SessionChange,
): Promise<LiveChanged> {
  const { change } = media;
  if (!change)
    throw new ChangeRefusedError('capability_unavailable', 'What converts this session cannot change it.');
  const asked = { ...work, settings, inputs };
  const fetching = inputs.length > 0 ? options.fetchInputs(asked, signal, logger) : undefined;
  const fetched = await fetching?.catch((error: unknown) => {
    throw refusalOf(error);
  });
  try {
    const paths = fetched?.paths ?? {};
    const checked = await options.checkInputs(asked, paths, signal, logger).catch((error: unknown) => {
      throw refusalOf(error);
    });
    return await change({ settings, ...checked } satisfies LiveChange);
  } finally {
    await fetched?.remove();
  }
}

/** What fails before the engine is asked leaves the session as it was. */
function refusalOf(error: unknown): ChangeRefusedError {
  if (error instanceof RenderError)
    return new ChangeRefusedError(error.code, error.message, { cause: error });
  if (error instanceof AssetError && error.code === 'input_too_large')
    return new ChangeRefusedError(error.code, error.message, { cause: error });
  const what = error instanceof ContentCheckError ? 'A content check' : 'Fetching the picture';
  return new ChangeRefusedError('internal_error', `${what} did not work. Try again.`, { cause: error });
}
