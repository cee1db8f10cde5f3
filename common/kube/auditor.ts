import { jittered, pause } from '../async/backoff.ts';
import { describeError } from '../errors.ts';
import type { Logger } from '../logging.ts';
import type { ObjectStore } from './object-store.ts';
import { isNewer, type KubeObject } from './resources.ts';

/** How far the watch may lag behind a list before missing changes count as missed, in ms. */
const GRACE_MS = 5_000;

export interface AuditorOptions<T extends KubeObject> {
  readonly list: (signal: AbortSignal) => Promise<{ items: T[]; resourceVersion: string }>;
  readonly store: Pick<ObjectStore<T>, 'byUid' | 'list'>;
  readonly everyMs: number;
  /** Whether RBAC denies the resource, so that a list would fail. */
  readonly isDenied: () => boolean;
  readonly logger: Logger;
  /** Called with the number of objects that the watch missed. */
  readonly onMissed: (count: number) => void;
}

/**
 * Compares a store with a fresh list from time to time, while the watch continues. Changes that the watch does not
 * deliver soon were missed.
 */
export interface Auditor {
  run(signal: AbortSignal): Promise<void>;
  /** Must be called with the uid of each removed object, so that an audit does not count it as missed. */
  removed(uid: string): void;
}

export function createAuditor<T extends KubeObject>(options: AuditorOptions<T>): Auditor {
  const { store, logger } = options;
  /** Uids removed during the present audit. */
  let removed: Set<string> | undefined;

  async function audit(signal: AbortSignal): Promise<void> {
    const gone = new Set<string>();
    removed = gone;
    const { items, resourceVersion } = await options.list(signal);
    await pause(GRACE_MS, signal);
    const present = new Set(items.map(({ metadata }) => metadata.uid));
    const missed = items.filter(({ metadata: { uid = '', resourceVersion: version } }) => {
      const known = store.byUid(uid);
      return known ? isNewer(version, known.metadata.resourceVersion) : !gone.has(uid);
    });
    const lingering = store.list().filter(({ metadata: { uid, resourceVersion: version } }) => {
      return !present.has(uid) && !isNewer(version, resourceVersion);
    });
    if (missed.length + lingering.length === 0 || signal.aborted) return;
    logger.warn(
      { missed: missed.length, lingering: lingering.length },
      'the periodic list found objects that the watch missed',
    );
    options.onMissed(missed.length + lingering.length);
  }

  return {
    async run(signal) {
      while (!signal.aborted) {
        await pause(jittered(options.everyMs), signal);
        if (signal.aborted) return;
        if (options.isDenied()) continue;
        try {
          await audit(signal);
        } catch (error) {
          if (!signal.aborted) logger.warn({ reason: describeError(error) }, 'cannot list');
        } finally {
          removed = undefined;
        }
      }
    },
    removed: (uid) => void removed?.add(uid),
  };
}
