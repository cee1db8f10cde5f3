import { Registry } from 'prom-client';
import { createBackoff, jittered, pause } from '../async/backoff.ts';
import { describeError } from '../errors.ts';
import type { Logger } from '../logging.ts';
import type { KubeClient, Selection } from './client.ts';
import { isKubeError, KubeError } from './errors.ts';
import { createHandlerSet, type Handlers } from './handlers.ts';
import { createObjectStore, type Indexers } from './object-store.ts';
import { reflectorMetrics } from './reflector-metrics.ts';
import { isNewer, type KubeObject, type ResourceDescriptor } from './resources.ts';

/** Watches end after this long, jittered, so that those of many clients do not come back at once. */
const WATCH_SECONDS = 300;
/** A watch that ends sooner than this without an event counts as failed. */
const SHORT_WATCH_MS = 1_000;
/** One that lasted longer than this was sound, events or not: the next is tried at once. */
const LONG_WATCH_MS = 10_000;
/** How far the watch may lag behind a list before what it lacks counts as missed. */
const AUDIT_GRACE_MS = 5_000;

export interface ReflectorOptions<T extends KubeObject> extends Selection {
  readonly client: KubeClient;
  readonly resource: ResourceDescriptor<T>;
  readonly logger: Logger;
  readonly registry?: Registry;
  readonly indexers?: Indexers<T>;
  /** How often the store is compared with a fresh list. Default ten minutes. */
  readonly relistEveryMs?: number;
  readonly handlers?: Handlers<T>;
  /** RBAC may deny it, which is no fault then: said once, and tried again this often. */
  readonly optional?: { readonly retryMs: number };
}

/** A local copy of a selection of objects, kept true by list and watch. Objects in it are not to be changed. */
export interface Reflector<T extends KubeObject> {
  /** Works until aborted. Faults of the API never end it. */
  run(signal: AbortSignal): Promise<void>;
  /** Objects already known are delivered as added. */
  addHandlers(handlers: Handlers<T>): void;
  readonly hasSynced: boolean;
  /** @throws the signal's reason when it aborts first */
  waitForSync(signal?: AbortSignal): Promise<void>;
  get(name: string, namespace?: string): T | undefined;
  byUid(uid: string): T | undefined;
  byIndex(index: string, value: string): T[];
  list(): T[];
  /** Takes in what a write answered, so that the next read sees it; ignored once the watch is as far. */
  note(object: T): void;
  /** Resolves when a list begun after this call is in the store. @throws the signal's reason when it aborts first */
  resync(signal?: AbortSignal): Promise<void>;
  /** performance.now() since when list and watch work without a gap; undefined while they do not. */
  readonly healthySince: number | undefined;
  /** performance.now() of the last word from the API; 0 before the first. */
  readonly lastActivity: number;
  /** Why RBAC denies it, of an optional one: what is in the store then may be old. */
  readonly denied: string | undefined;
}

/**
 * A reflector after client-go's: paginated list, then a watch with bookmarks from the list's version, resumed where it
 * ended, listing again only when the server no longer holds that version (410). Every fault is retried with backoff.
 */
export function createReflector<T extends KubeObject>(options: ReflectorOptions<T>): Reflector<T> {
  const { client, resource, namespace, labelSelector, fieldSelector, relistEveryMs = 600_000 } = options;
  const logger = options.logger.child({ resource: resource.plural });
  const metrics = reflectorMetrics(options.registry ?? new Registry(), resource.plural, () =>
    lastActivity === 0 ? 0 : performance.now() - lastActivity,
  );
  const store = createObjectStore<T>(options.indexers);
  const handlers = createHandlerSet<T>(logger);
  if (options.handlers) handlers.add(options.handlers, []);

  /** Version the store has reached by list or watch. */
  let reached: string | undefined;
  let mustList = true;
  let hasSynced = false;
  let healthySince: number | undefined;
  let lastActivity = 0;
  let denied: string | undefined;
  let watching: AbortController | undefined;
  let listsBegun = 0;
  /** States what went while an audit runs, so that it is not taken for missed. */
  let removed: Set<string> | undefined;
  let waiters: { readonly after: number; readonly resolve: () => void }[] = [];

  function apply(changes: ReturnType<typeof store.put>): void {
    for (const change of changes) {
      if (change.type === 'delete') removed?.add(change.object.metadata.uid ?? '');
      handlers.deliver(change);
    }
    metrics.objects.set(store.size);
  }

  async function list(signal: AbortSignal): Promise<void> {
    const number = ++listsBegun;
    const { items, resourceVersion } = await client.list(resource, {
      namespace,
      labelSelector,
      fieldSelector,
      signal,
    });
    lastActivity = performance.now();
    metrics.lists.inc();
    apply(store.replaceAll(items, resourceVersion));
    reached = resourceVersion;
    mustList = false;
    if (!hasSynced) {
      hasSynced = true;
      handlers.synced();
    }
    const done = waiters.filter(({ after }) => number > after);
    waiters = waiters.filter(({ after }) => number <= after);
    for (const { resolve } of done) resolve();
  }

  async function watch(from: string, signal: AbortSignal, onProgress: () => void): Promise<void> {
    const began = performance.now();
    let events = 0;
    const timeoutSeconds = Math.round(jittered(WATCH_SECONDS));
    const onOpen = () => {
      lastActivity = performance.now();
      healthySince ??= lastActivity;
      if (denied !== undefined) logger.info('can watch again');
      denied = undefined;
    };
    const selection = { namespace, labelSelector, fieldSelector };
    for await (const event of client.watch(resource, {
      ...selection,
      resourceVersion: from,
      timeoutSeconds,
      signal,
      onOpen,
    })) {
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

  /** Compares the store with a list while the watch goes on; what the watch does not deliver soon was missed. */
  async function audit(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await pause(jittered(relistEveryMs), signal);
      if (signal.aborted) return;
      if (denied !== undefined) continue;
      try {
        removed = new Set();
        const selection = { namespace, labelSelector, fieldSelector };
        const { items, resourceVersion } = await client.list(resource, { ...selection, signal });
        await pause(AUDIT_GRACE_MS, signal);
        const present = new Set(items.map(({ metadata }) => metadata.uid));
        const missed = items.filter(({ metadata: { uid = '', resourceVersion: version } }) => {
          const known = store.byUid(uid);
          return known ? isNewer(version, known.metadata.resourceVersion) : !removed?.has(uid);
        });
        const lingering = store.list().filter(({ metadata: { uid, resourceVersion: version } }) => {
          return !present.has(uid) && !isNewer(version, resourceVersion);
        });
        if (missed.length + lingering.length === 0 || signal.aborted) continue;
        metrics.missed.inc(missed.length + lingering.length);
        logger.warn(
          { missed: missed.length, lingering: lingering.length },
          'the periodic list found objects that the watch missed',
        );
        relist();
      } catch (error) {
        if (!signal.aborted) logger.warn({ reason: describeError(error) }, 'cannot list');
      } finally {
        removed = undefined;
      }
    }
  }

  function relist(): void {
    mustList = true;
    watching?.abort(new KubeError('listing again', { code: 'unavailable' }));
  }

  async function run(signal: AbortSignal): Promise<void> {
    const backoff = createBackoff({ baseMs: 100, maxMs: 5_000 });
    const auditing = audit(signal);
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
        if (options.optional && code === 'forbidden') {
          if (denied === undefined) logger.warn({ reason: describeError(error) }, 'cannot watch');
          denied = describeError(error);
          // What was read before may change unseen.
          mustList = true;
          await pause(jittered(options.optional.retryMs), stop);
          continue;
        }
        logger.warn({ code, reason: describeError(error) }, 'watch interrupted');
        // Whoever wants a fresh list does not wait for it.
        await backoff.wait(stop);
      }
    }
    healthySince = undefined;
    await auditing;
  }

  function settled(after: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const give = () => {
        waiters = waiters.filter((candidate) => candidate !== waiter);
        reject(signal?.reason);
      };
      const waiter = {
        after,
        resolve: () => {
          signal?.removeEventListener('abort', give);
          resolve();
        },
      };
      waiters.push(waiter);
      signal?.addEventListener('abort', give, { once: true });
    });
  }

  return {
    run,
    addHandlers: (added) => handlers.add(added, store.list(), hasSynced),
    get hasSynced() {
      return hasSynced;
    },
    waitForSync: (signal) => (hasSynced ? Promise.resolve() : settled(0, signal)),
    get: (name, inNamespace = namespace) => store.byName(name, inNamespace),
    byUid: store.byUid,
    byIndex: store.byIndex,
    list: store.list,
    note(object) {
      if (reached !== undefined && isNewer(object.metadata.resourceVersion, reached))
        apply(store.put(object));
    },
    resync(signal) {
      const done = settled(listsBegun, signal);
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
      return denied;
    },
  };
}
