import { describeError } from '@semblance/common/errors';
import type { Reflector } from '@semblance/common/kube/index';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { EventBus } from '@semblance/events/bus';
import type { Database } from './storage/database.ts';

/** Returns named checks for `/readyz`; each throws a reason. */
export function readyChecks({
  database,
  events,
  reflector,
  unready,
}: {
  readonly database: Database;
  readonly events: Pick<EventBus, 'check'>;
  readonly reflector: Reflector<RenderJob>;
  /** Returns why the schema is not ready, if it is not. */
  readonly unready: () => string | undefined;
}): Readonly<Record<string, () => unknown>> {
  return {
    async postgres() {
      const why = unready();
      if (why !== undefined) throw new Error(`the schema is not ready: ${why}`);
      // A standby refuses this like every write.
      await database.fast`select 1 from settings for key share`;
    },
    nats: eventsReadiness(events),
    kubernetes: () => checkReflector(reflector),
  };
}

/** The bus must have been reached once. Later, jobs are accepted and rendered without it, and webhooks wait. */
function eventsReadiness(events: Pick<EventBus, 'check'>): () => string | undefined {
  let reached = false;
  return () => {
    try {
      events.check();
      reached = true;
      return undefined;
    } catch (error) {
      if (!reached) throw error;
      return `away, and events wait in the database: ${describeError(error)}`;
    }
  };
}

function checkReflector(reflector: Reflector<RenderJob>): void {
  if (!reflector.hasSynced || reflector.healthySince === undefined)
    throw new Error('RenderJobs are not being watched: the Kubernetes API does not answer');
}
