import { setMaxListeners } from 'node:events';
import type { Logger } from '../logging.ts';
import { createCredentials } from './credentials.ts';
import { createDeclaredApply } from './declared.ts';
import { errorOfWatch, isKubeError, KubeError } from './errors.ts';
import { linesOf } from './lines.ts';
import {
  apiVersionOf,
  collectionPath,
  type KubeObject,
  type ObjectMeta,
  type ObjectRef,
  objectPath,
  type ResourceDescriptor,
} from './resources.ts';
import { createTransport } from './transport.ts';

/**
 * Longest silence on a watch before its connection counts as dead, in ms. It exceeds the interval of bookmarks,
 * which come about every minute.
 */
const WATCH_IDLE_MS = 90_000;

/** Media type that asks for an object's metadata only. */
/** Objects in one page of a list. */
export const LIST_PAGE = 500;
const METADATA_ALONE = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1';

export interface KubeClientOptions {
  /** Path of a kubeconfig file. Absent: the Pod's service account. */
  readonly kubeconfigPath?: string;
  /** Field manager that owns the fields this client applies. */
  readonly fieldManager: string;
  /** Largest number of requests in flight; watches do not count. Default 32. */
  readonly maxInFlight?: number;
  /** Time limit of a request in ms, counted from when it may start. Default 10,000. */
  readonly requestTimeoutMs?: number;
  /** Number of times a request is repeated when the server is busy and says when to retry. Default 2. */
  readonly maxRepeats?: number;
  /** Ends every request and watch when it aborts. */
  readonly signal?: AbortSignal;
  /** Logs which fields of a status are missing in the cluster's resource definitions. */
  readonly logger?: Logger;
}

export interface CallOptions {
  readonly signal?: AbortSignal;
}

export interface WriteOptions extends CallOptions {
  readonly subresource?: 'status';
}

export interface Selection {
  /** Absent: all namespaces, or a cluster-scoped resource. */
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

export interface KubeList<T> {
  readonly items: T[];
  /** Version of the snapshot, from which a watch continues. */
  readonly resourceVersion: string;
}

export type WatchEvent<T> =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: T }
  /** Says that nothing happened to the selection up to this version. */
  | { readonly type: 'BOOKMARK'; readonly resourceVersion: string };

/** Object for server-side apply: the fields that its manager wants to own, and only those. */
export type Applied<T> = { readonly metadata: ObjectMeta } & Partial<Omit<T, 'metadata'>>;

/** Every method throws KubeError, or the signal's reason when it aborted. */
export interface KubeClient {
  readonly fieldManager: string;
  get<T extends KubeObject>(
    resource: ResourceDescriptor<T>,
    ref: ObjectRef,
    options?: CallOptions,
  ): Promise<T>;
  /** Returns undefined when the object does not exist. */
  find<T extends KubeObject>(
    resource: ResourceDescriptor<T>,
    ref: ObjectRef,
    options?: CallOptions,
  ): Promise<T | undefined>;
  /** Returns all pages of one snapshot. */
  list<T extends KubeObject>(
    resource: ResourceDescriptor<T>,
    options?: Selection & CallOptions,
  ): Promise<KubeList<T>>;
  create<T extends KubeObject>(
    resource: ResourceDescriptor<T>,
    object: Omit<T, 'apiVersion' | 'kind' | 'status'>,
    options?: CallOptions,
  ): Promise<T>;
  /** Creates the object and receives only its metadata, which saves much work on both sides. */
  createForMetadata<T extends KubeObject>(
    resource: ResourceDescriptor<T>,
    object: Omit<T, 'apiVersion' | 'kind' | 'status'>,
    options?: CallOptions,
  ): Promise<{ readonly metadata: ObjectMeta }>;
  /** Replaces the object. If `metadata.resourceVersion` is given and a later version exists, throws `conflict`. */
  replace<T extends KubeObject>(
    resource: ResourceDescriptor<T>,
    object: T,
    options?: WriteOptions,
  ): Promise<T>;
  /**
   * Runs server-side apply and takes fields over from other managers. `uid` and `resourceVersion` in the metadata
   * are preconditions (`conflict`). Without a subresource and without `uid`, creates a missing object. Omits fields
   * of a status that the cluster's resource definition does not have.
   */
  apply<T extends KubeObject>(
    resource: ResourceDescriptor<T>,
    object: Applied<T>,
    options?: WriteOptions & { readonly fieldManager?: string },
  ): Promise<T>;
  /** Applies a JSON merge patch (RFC 7386), in which null removes a field. */
  mergePatch<T extends KubeObject>(
    resource: ResourceDescriptor<T>,
    ref: ObjectRef,
    patch: object,
    options?: WriteOptions,
  ): Promise<T>;
  /**
   * Deletes the object; throws `conflict` when a precondition does not hold. @returns false when the object did not
   * exist
   */
  delete(
    resource: ResourceDescriptor<KubeObject>,
    ref: ObjectRef,
    options?: CallOptions & {
      readonly uid?: string;
      readonly resourceVersion?: string;
      /** For a Pod: time that its processes have to end, in seconds. It overrides the Pod's spec. */
      readonly gracePeriodSeconds?: number;
    },
  ): Promise<boolean>;
  /**
   * Yields the events after `resourceVersion` until the server ends the watch. Throws `gone` when that version is
   * too old.
   */
  watch<T extends KubeObject>(
    resource: ResourceDescriptor<T>,
    options: Selection & {
      readonly resourceVersion: string;
      readonly timeoutSeconds?: number;
      readonly signal?: AbortSignal;
      /** Called when the server has accepted the watch. */
      readonly onOpen?: () => void;
    },
  ): AsyncIterable<WatchEvent<T>>;
  /** Returns the server's version, such as `v1.36.3`. */
  version(options?: CallOptions): Promise<string>;
  close(): Promise<void>;
}

/** @throws Error when neither a kubeconfig nor a service account gives the address of the API */
export function createKubeClient(options: KubeClientOptions): KubeClient {
  const { fieldManager, maxInFlight = 32, requestTimeoutMs = 10_000, maxRepeats = 2 } = options;
  if (options.signal) setMaxListeners(0, options.signal);
  const transport = createTransport({
    credentials: createCredentials({ kubeconfigPath: options.kubeconfigPath, connections: maxInFlight }),
    maxInFlight,
    requestTimeoutMs,
    maxRepeats,
    userAgent: `semblance/${fieldManager}`,
    signal: options.signal,
  });

  const typed = <T extends KubeObject>(resource: ResourceDescriptor<T>, object: object) => ({
    ...object,
    apiVersion: apiVersionOf(resource),
    kind: resource.kind,
  });

  const declared = createDeclaredApply(options.logger);
  const get: KubeClient['get'] = (resource, ref, { signal } = {}) =>
    transport.request({ method: 'GET', path: objectPath(resource, ref), signal });

  return {
    fieldManager,
    get,
    async find(resource, ref, settings) {
      try {
        return await get(resource, ref, settings);
      } catch (error) {
        if (isKubeError(error, 'not_found')) return undefined;
        throw error;
      }
    },
    async list<T extends KubeObject>(
      resource: ResourceDescriptor<T>,
      settings: Parameters<KubeClient['list']>[1] = {},
    ) {
      const { namespace, labelSelector, fieldSelector, signal } = settings;
      const items: T[] = [];
      let next: string | undefined;
      for (;;) {
        const page: { metadata: { resourceVersion: string; continue?: string }; items: T[] | null } =
          await transport.request({
            method: 'GET',
            path: collectionPath(resource, namespace),
            query: { labelSelector, fieldSelector, limit: LIST_PAGE, continue: next },
            signal,
          });
        items.push(...(page.items ?? []));
        next = page.metadata.continue || undefined;
        if (!next) return { items, resourceVersion: page.metadata.resourceVersion };
      }
    },
    create: (resource, object, { signal } = {}) =>
      transport.request({
        method: 'POST',
        path: collectionPath(resource, object.metadata.namespace),
        query: { fieldManager },
        body: typed(resource, object),
        signal,
      }),
    createForMetadata: (resource, object, { signal } = {}) =>
      transport.request({
        method: 'POST',
        path: collectionPath(resource, object.metadata.namespace),
        query: { fieldManager },
        accept: METADATA_ALONE,
        body: typed(resource, object),
        signal,
      }),
    replace: (resource, object, { subresource, signal } = {}) =>
      transport.request({
        method: 'PUT',
        path: objectPath(resource, refOf(object), subresource),
        query: { fieldManager },
        body: typed(resource, object),
        signal,
      }),
    apply: (resource, object, { subresource, fieldManager: manager = fieldManager, signal } = {}) =>
      declared(resource, object, (body) =>
        transport.request({
          method: 'PATCH',
          path: objectPath(resource, refOf(object), subresource),
          query: { fieldManager: manager, force: true },
          contentType: 'application/apply-patch+yaml',
          body: typed(resource, body),
          signal,
        }),
      ),
    mergePatch: (resource, ref, patch, { subresource, signal } = {}) =>
      transport.request({
        method: 'PATCH',
        path: objectPath(resource, ref, subresource),
        query: { fieldManager },
        contentType: 'application/merge-patch+json',
        body: patch,
        signal,
      }),
    async delete(resource, ref, { uid, resourceVersion, gracePeriodSeconds, signal } = {}) {
      try {
        await transport.request({
          method: 'DELETE',
          path: objectPath(resource, ref),
          body: {
            apiVersion: 'v1',
            kind: 'DeleteOptions',
            propagationPolicy: 'Background',
            gracePeriodSeconds,
            preconditions: { uid, resourceVersion },
          },
          signal,
        });
        return true;
      } catch (error) {
        if (isKubeError(error, 'not_found')) return false;
        throw error;
      }
    },
    async *watch<T extends KubeObject>(
      resource: ResourceDescriptor<T>,
      settings: Parameters<KubeClient['watch']>[1],
    ) {
      const { namespace, resourceVersion, timeoutSeconds, labelSelector, fieldSelector, signal } = settings;
      const path = collectionPath(resource, namespace);
      const query = { resourceVersion, timeoutSeconds, labelSelector, fieldSelector };
      const body = await transport.stream(
        { method: 'GET', path, query: { ...query, watch: true, allowWatchBookmarks: true }, signal },
        WATCH_IDLE_MS,
      );
      settings.onOpen?.();
      for await (const line of linesOf(body)) yield eventOf<T>(`watch ${path}`, line);
    },
    async version(settings = {}) {
      const { gitVersion } = await transport.request<{ gitVersion: string }>({
        method: 'GET',
        path: '/version',
        signal: settings.signal,
      });
      return gitVersion;
    },
    close: () => transport.close(),
  };
}

function refOf(object: { readonly metadata: ObjectMeta }): ObjectRef {
  return { namespace: object.metadata.namespace, name: object.metadata.name ?? '' };
}

function eventOf<T extends KubeObject>(what: string, line: string): WatchEvent<T> {
  let event: { type?: string; object?: T };
  try {
    event = JSON.parse(line) as typeof event;
  } catch (error) {
    throw new KubeError(`${what}: an event is not JSON`, { code: 'unavailable', cause: error });
  }
  const { type, object } = event;
  if (type === 'ERROR') throw errorOfWatch(what, object ?? {});
  if (!object) throw new KubeError(`${what}: an event without an object`, { code: 'unavailable' });
  if (type === 'BOOKMARK') return { type, resourceVersion: object.metadata.resourceVersion ?? '' };
  if (type === 'ADDED' || type === 'MODIFIED' || type === 'DELETED') return { type, object };
  throw new KubeError(`${what}: an event of unknown type ${type}`, { code: 'unavailable' });
}
