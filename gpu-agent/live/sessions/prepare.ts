import type { Logger } from '@semblance/common/logging';
import type { LiveEngine, LiveMedia } from '@semblance/engine-api/live-engine';
import type { CheckInputs } from './check-inputs.ts';
import type { SessionWork } from './claim-request.ts';

export interface PrepareOptions {
  /**
   * Makes local copies of a session's inputs. `remove` is called when the engine has read them.
   * @throws the signal's reason
   */
  readonly fetchInputs: (
    work: SessionWork,
    signal: AbortSignal,
    logger: Logger,
  ) => Promise<{ readonly paths: Readonly<Record<string, string>>; remove(): Promise<void> }>;
  /**
   * Decides which inputs the engine may open.
   * @throws errors that `endByCheck` handles
   */
  readonly checkInputs: CheckInputs;
}

/** Prepares a session's stream: fetches its inputs and checks them before the engine opens them. */
export async function prepareStream(
  { fetchInputs, checkInputs }: PrepareOptions,
  session: {
    readonly work: SessionWork;
    readonly engine: LiveEngine;
    readonly signal: AbortSignal;
    readonly logger: Logger;
    readonly onFailed: (error: Error) => void;
  },
): Promise<LiveMedia> {
  const { work, engine, signal, logger, onFailed } = session;
  const fetched = work.inputs.length > 0 ? await fetchInputs(work, signal, logger) : undefined;
  try {
    const checked = await checkInputs(work, fetched?.paths ?? {}, signal, logger);
    return await engine.open({ settings: work.settings, ...checked, signal, onFailed });
  } finally {
    await fetched?.remove();
  }
}
