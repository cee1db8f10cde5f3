import type { Logger } from '@semblance/common/logging';
import type { LiveEngine, LiveStream } from '@semblance/engine-api/live-engine';
import type { CheckInputs } from './check-inputs.ts';
import type { SessionWork } from './claim-request.ts';

export interface PrepareOptions {
  /** Local copies of a session's inputs; `remove` is called once the engine has read them. @throws the signal's reason */
  readonly fetchInputs: (
    work: SessionWork,
    signal: AbortSignal,
    logger: Logger,
  ) => Promise<{ readonly paths: Readonly<Record<string, string>>; remove(): Promise<void> }>;
  /** Which of them the engine may open. @throws what `endByCheck` understands */
  readonly checkInputs: CheckInputs;
}

/** Makes a session's stream ready: what it brings is fetched, and looked at before its engine opens it. */
export async function prepareStream(
  { fetchInputs, checkInputs }: PrepareOptions,
  session: {
    readonly work: SessionWork;
    readonly engine: LiveEngine;
    readonly signal: AbortSignal;
    readonly logger: Logger;
    readonly onFailed: (error: Error) => void;
  },
): Promise<LiveStream> {
  const { work, engine, signal, logger, onFailed } = session;
  const fetched = work.inputs.length > 0 ? await fetchInputs(work, signal, logger) : undefined;
  try {
    const checked = await checkInputs(work, fetched?.paths ?? {}, signal, logger);
    return await engine.open({ settings: work.settings, ...checked, signal, onFailed });
  } finally {
    await fetched?.remove();
  }
}
