import { Registry } from 'prom-client';
import { createBackoff, jittered, pause } from '../async/backoff.ts';
import { describeError } from '../errors.ts';
import type { Logger } from '../logging.ts';
import { createAuditor } from './auditor.ts';
import type { KubeClient, Selection } from './client.ts';
import { isKubeError, KubeError } from './errors.ts';
import { createHandlerSet, type Handlers } from './handlers.ts';
import { createListCount } from './list-count.ts';
import { createObjectStore, type Indexers } from './object-store.ts';
import { reflectorMetrics } from './reflector-metrics.ts';
import { isNewer, type KubeObject, type ResourceDescriptor } from './resources.ts';

/** Duration of a watch in seconds, jittered so that the watches of many clients do not restart at once. */
const WATCH_SECONDS = 300;
/** Shortest duration of a sound watch without events, in ms. A shorter one counts as failed. */
const SHORT_WATCH_MS = 1_000;
/**
 * Duration in ms beyond which a watch was sound, with or without events, so that a failure then restarts the
 * backoff.
 */
const LONG_WATCH_MS = 10_000;

export interface ReflectorOptions<T extends KubeObject> extends Selection {
  readonly client: KubeClient;
  readonly resource: ResourceDescriptor<T>;
  readonly logger: Logger;
  readonly registry?: Registry;
  readonly indexers?: Indexers<T>;
  /** Interval in ms at which the store is compared with a fresh list. Default 600,000 (ten minutes). */
  readonly relistEveryMs?: number;
  readonly handlers?: Handlers<T>;
  /**
   * Says that RBAC may deny the resource, which is then no fault. The denial is logged once, and access is retried
   * every `retryMs`.
   */
  readonly optional?: { readonly retryMs: number };
}

/** A local copy of a selection of objects, kept current by list and watch. Callers must not change its objects. */
export interface Reflector<T extends KubeObject> {
  /** Works until the signal aborts. Faults of the API never end it. */
  run(signal: AbortSignal): Promise<void>;
  /** Adds handlers. Objects that are known already are delivered as added. */
  addHandlers(handlers: Handlers<T>): void;
  readonly hasSynced: boolean;
  /** Resolves when the first list is stored. @throws the signal's reason when it aborts first */
  waitForSync(signal?: AbortSignal): Promise<void>;
  get(name: string, namespace?: string): T | undefined;
  byUid(uid: string): T | undefined;
  byIndex(index: string, value: string): T[];
  list(): T[];
  /**
   * Stores the object that a write returned, so that the next read sees it. Ignores it if the watch has reached
   * that version.
   */
  note(object: T): void;
  /**
   * Resolves when a list that began after this call is in the store. @throws the signal's reason when it aborts
   * first
   */
  resync(signal?: AbortSignal): Promise<void>;
  /**
   * Time since which list and watch have worked without a gap, by performance.now(). Undefined while they do not
   * work.
   */
  readonly healthySince: number | undefined;
  /** Time of the last answer or event from the API, by performance.now(). 0 before the first. */
  readonly lastActivity: number;
  /** Why RBAC denies an optional resource; the objects in the store may be stale then. Undefined: not denied. */
  readonly denied: string | undefined;
}

/**
 * Creates a reflector after client-go's. It takes a paginated list, then watches from the list's version with
 * bookmarks. It resumes where the watch ended, and lists again only when the server no longer holds that version
 * (410). It retries every fault with backoff.
 */
export function createReflector<T extends KubeObject>(options: ReflectorOptions<T>): Reflector<T> {
  const { client, resource, namespace, labelSelector, fieldSelector, relistEveryMs = 600_000 } = options;
  const selection = { namespace, labelSelector, fieldSelector };
  const logger = options.logger.child({ resource: resource.plural });
  const metrics = reflectorMetrics(options.registry ?? new Registry(), resource.plural, () =>
    lastActivity === 0 ? 0 : performance.now() - lastActivity,
  );
  const store = createObjectStore<T>(options.indexers);
  const handlers = createHandlerSet<T>(logger);
  if (options.handlers) handlers.add(options.handlers, []);

  /** Version that the store has reached by list or watch. */
  let reached: string | undefined;
  let mustList = true;
  let hasSynced = false;
  let healthySince: number | undefined;
  let lastActivity = 0;
  const access = createAccess(options.optional !== undefined, logger);
  let watching: AbortController | undefined;
  const lists = createListCount();

  const auditor = createAuditor({
    list: (signal) => client.list(resource, { ...selection, signal }),
    store,
    everyMs: relistEveryMs,
    isDenied: () => access.denied !== undefined,
    logger,
    onMissed(count) {
      metrics.missed.inc(count);
      relist();
    },
  });

  function apply(changes: ReturnType<typeof store.put>): void {
    for (const change of changes) {
      if (change.type === 'delete') auditor.removed(change.object.metadata.uid ?? '');
      handlers.deliver(change);
    }
    metrics.objects.set(store.size);
  }

  async function list(signal: AbortSignal): Promise<void> {
    const number = lists.begin();
    const { items, resourceVersion } = await client.list(resource, { ...selection, signal });
    lastActivity = performance.now();
    metrics.lists.inc();
    apply(store.replaceAll(items, resourceVersion));
    reached = resourceVersion;
    mustList = false;
    if (!hasSynced) {
      hasSynced = true;
      handlers.synced();
    }
    lists.done(number);
  }

  async function watch(from: string, signal: AbortSignal, onProgress: () => void): Promise<void> {
    const began = performance.now();
    let events = 0;
    const timeoutSeconds = Math.round(jittered(WATCH_SECONDS));
    const onOpen = () => {
      lastActivity = performance.now();
      healthySince ??= lastActivity;
      access.granted();
    };
    const options = { ...selection, resourceVersion: from, timeoutSeconds, signal, onOpen };
    for await (const event of client.watch(resource, options)) {
      lastActivity = performance.now();
      events++;
      onProgress();
      if (event.type === 'BOOKMARK') {
        reached = event.resourceVersion;
        continue;
      }
      apply(event.type === 'DELETED' ? store.remove(event.object) : store.put(event.object));
      reached = event.object.metadata.resourceVersion;
      metrics.events.inc();
    }
    if (events === 0 && performance.now() - began < SHORT_WATCH_MS && !signal.aborted) {
      throw new KubeError(`the watch of ${resource.plural} ended at once`, { code: 'unavailable' });
    }
  }

  function relist(): void {
    mustList = true;
    watching?.abort(new KubeError('listing again', { code: 'unavailable' }));
  }

  async function run(signal: AbortSignal): Promise<void> {
    const backoff = createBackoff({ baseMs: 100, maxMs: 5_000 });
    const auditing = auditor.run(signal);
    while (!signal.aborted) {
      const round = new AbortController();
      watching = round;
      const stop = AbortSignal.any([signal, round.signal]);
      const began = performance.now();
      try {
        if (mustList) await list(stop);
        await watch(reached ?? '', stop, backoff.reset);
      } catch (error) {
        if (signal.aborted) break;
        if (round.signal.aborted) continue;
        healthySince = undefined;
        if (isKubeError(error, 'gone')) mustList = true;
        if (performance.now() - began > LONG_WATCH_MS) backoff.reset();
        const code = isKubeError(error) ? error.code : 'internal';
        metrics.failures.inc({ code });
        if (access.isDenied(code, error)) {
          // Objects that were read before may change unseen.
          mustList = true;
          await pause(jittered(options.optional?.retryMs ?? 0), stop);
          continue;
        }
        logger.warn({ code, reason: describeError(error) }, 'watch interrupted');
        // `resync` aborts this wait, so callers that want a fresh list do not wait for it.
        await backoff.wait(stop);
      }
    }
    healthySince = undefined;
    await auditing;
  }

  return {
    run,
    addHandlers: (added) => handlers.add(added, store.list(), hasSynced),
    get hasSynced() {
      return hasSynced;
    },
    waitForSync: (signal) => (hasSynced ? Promise.resolve() : lists.until(0, signal)),
    get: (name, inNamespace = namespace) => store.byName(name, inNamespace),
    byUid: store.byUid,
    byIndex: store.byIndex,
    list: store.list,
    note(object) {
      if (reached !== undefined && isNewer(object.metadata.resourceVersion, reached))
        apply(store.put(object));
    },
    resync(signal) {
      const done = lists.until(lists.begun, signal);
      relist();
      return done;
    },
    get healthySince() {
      return healthySince;
    },
    get lastActivity() {
      return lastActivity;
    },
    get denied() {
      return access.denied;
    },
  };
}

/** Tells when RBAC denies an optional resource, and when it allows it again. Each change is logged once. */
function createAccess(isOptional: boolean, logger: Logger) {
  let denied: string | undefined;
  return {
    /** Why RBAC denies the resource; undefined: it does not. */
    get denied() {
      return denied;
    },
    /** Returns whether the error is a denial, which is no fault of an optional resource. */
    isDenied(code: string, error: unknown): boolean {
      if (!isOptional || code !== 'forbidden') return false;
      if (denied === undefined) logger.warn({ reason: describeError(error) }, 'cannot watch');
      denied = describeError(error);
      return true;
    },
    granted() {
      if (denied !== undefined) logger.info('can watch again');
      denied = undefined;
    },
  };
}
