import { describeError } from '@semblance/common/errors';
import { isNamespaceGoing, type KubeClient } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import type { Attempts } from './attempts/attempts.ts';
import { AGENT_ENDS, type Live } from './live/live.ts';
import type { AgentSettings } from './settings.ts';

export interface EndWorkOptions {
  readonly attempts: Pick<Attempts, 'idle' | 'endAll'>;
  readonly sessions: Pick<Live['sessions'], 'warn' | 'idle' | 'endAll'>;
  readonly settings: Pick<AgentSettings, 'drainMs' | 'liveDrainMs' | 'namespace'>;
  readonly kube: KubeClient;
  readonly logger: Logger;
}

/**
 * Lets running work go on for the times in the settings, then ends it. Clients of sessions are warned at once, so
 * that they can go on elsewhere. When the namespace is being deleted everything ends immediately, because nobody
 * takes a result.
 */
export async function endWork(options: EndWorkOptions): Promise<void> {
  const { attempts, sessions, settings, logger } = options;
  const { drainMs, liveDrainMs } = settings;
  const pointless = new AbortController();
  void nobodyWaits(options).then((going) => {
    if (!going) return;
    logger.info({ namespace: settings.namespace }, 'the namespace is being deleted: dropping the work');
    pointless.abort();
  });
  const within = (ms: number) => AbortSignal.any([AbortSignal.timeout(ms), pointless.signal]);
  const endSessions = async () => {
    sessions.warn({ reason: 'agent_draining', at: performance.now() + liveDrainMs });
    await sessions.idle(within(liveDrainMs));
    await sessions.endAll(AGENT_ENDS);
  };
  await Promise.all([
    attempts.idle(within(drainMs)).then(() => attempts.endAll('the agent is ending')),
    endSessions(),
  ]);
}

async function nobodyWaits({ kube, settings, logger }: EndWorkOptions): Promise<boolean> {
  try {
    return await isNamespaceGoing(kube, settings.namespace);
  } catch (error) {
    // Without the permission, or without the API, the agent ends as usual.
    logger.debug({ err: error }, `cannot read the namespace: ${describeError(error)}`);
    return false;
  }
}
