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

/** Silence on a watch, beyond the bookmark that comes every minute or so, after which its connection counts as dead. */
const WATCH_IDLE_MS = 90_000;

/** Asks for an object's metadata in place of the object. */
const METADATA_ALONE = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1';

export interface KubeClientOptions {
  /** Absent: the pod's service account. */
  readonly kubeconfigPath?: string;
  /** Owner of the fields this client applies. */
  readonly fieldManager: string;
  /** Requests under way at once; watches do not count. Default 32. */
  readonly maxInFlight?: number;
  /** Time limit of a request, counted from when it may start. Default 10,000. */
  readonly requestTimeoutMs?: number;
  /** Times a request is repeated when the server is busy and says when to come back. Default 2. */
  readonly maxRepeats?: number;
  /** Ends every request and watch. */
  readonly signal?: AbortSignal;
  /** Is told which fields of a status the cluster's definitions do not have. */
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
  /** The snapshot's version, from which a watch goes on. */
  readonly resourceVersion: string;
}

export type WatchEvent<T> =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: T }
  /** Nothing happened to the selection up to this version. */
  | { readonly type: 'BOOKMARK'; readonly resourceVersion: string };

/** Holds what server-side apply takes: the fields its manager wants to own, and only those. */
export type Applied<T> = { readonly metadata: ObjectMeta } & Partial<Omit<T, 'metadata'>>;

/** Everything throws KubeError, or the signal's reason when aborted. */
export interface KubeClient {
  readonly fieldManager: string;
  get<T extends KubeObject>(
    resource: ResourceDescriptor<T>,
    ref: ObjectRef,
    options?: CallOptions,
  ): Promise<T>;
  /** Undefined when there is no such object. */
  find<T extends KubeObject>(
    resource: ResourceDescriptor<T>,
    ref: ObjectRef,
    options?: CallOptions,
  ): Promise<T | undefined>;
  /** All pages of one snapshot. */
  list<T extends KubeObject>(
    resource: ResourceDescriptor<T>,
    options?: Selection & CallOptions & { readonly pageSize?: number },
  ): Promise<KubeList<T>>;
  create<T extends KubeObject>(
    resource: ResourceDescriptor<T>,
    object: Omit<T, 'apiVersion' | 'kind' | 'status'>,
    options?: CallOptions,
  ): Promise<T>;
  /** Creates, and is answered with the metadata alone, which spares the server and us a good part of the work. */
  createForMetadata<T extends KubeObject>(
    resource: ResourceDescriptor<T>,
    object: Omit<T, 'apiVersion' | 'kind' | 'status'>,
    options?: CallOptions,
  ): Promise<{ readonly metadata: ObjectMeta }>;
  /** With `metadata.resourceVersion`, refuses (`conflict`) to overwrite a later version. */
  replace<T extends KubeObject>(
    resource: ResourceDescriptor<T>,
    object: T,
    options?: WriteOptions,
  ): Promise<T>;
  /**
   * Server-side apply, taking fields over from other managers. `uid` and `resourceVersion` in the metadata are
   * preconditions (`conflict`). Without a subresource and without `uid`, creates what is missing. Fields of a status
   * that the cluster's definition of the resource does not have are left out.
   */
  apply<T extends KubeObject>(
    resource: ResourceDescriptor<T>,
    object: Applied<T>,
    options?: WriteOptions & { readonly fieldManager?: string },
  ): Promise<T>;
  /** JSON merge patch (RFC 7386): null removes a field. */
  mergePatch<T extends KubeObject>(
    resource: ResourceDescriptor<T>,
    ref: ObjectRef,
    patch: object,
    options?: WriteOptions,
  ): Promise<T>;
  /** @returns false when there was no such object. `conflict` when a precondition does not hold. */
  delete(
    resource: ResourceDescriptor<KubeObject>,
    ref: ObjectRef,
    options?: CallOptions & {
      readonly uid?: string;
      readonly resourceVersion?: string;
      /** Of a Pod: how long its processes are given, in place of what its spec says. */
      readonly gracePeriodSeconds?: number;
    },
  ): Promise<boolean>;
  /** Events after `resourceVersion`, until the server ends the watch. Throws `gone` when that version is too old. */
  watch<T extends KubeObject>(
    resource: ResourceDescriptor<T>,
    options: Selection & {
      readonly resourceVersion: string;
      readonly timeoutSeconds?: number;
      readonly signal?: AbortSignal;
      /** The server took the watch. */
      readonly onOpen?: () => void;
    },
  ): AsyncIterable<WatchEvent<T>>;
  /** The server's version, such as `v1.36.3`. */
  version(options?: CallOptions): Promise<string>;
  close(): Promise<void>;
}

/** @throws Error when neither a kubeconfig nor a service account says where the API is */
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
      const { namespace, labelSelector, fieldSelector, pageSize = 500, signal } = settings;
      const items: T[] = [];
      let next: string | undefined;
      for (;;) {
        const page: { metadata: { resourceVersion: string; continue?: string }; items: T[] | null } =
          await transport.request({
            method: 'GET',
            path: collectionPath(resource, namespace),
            query: { labelSelector, fieldSelector, limit: pageSize, continue: next },
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
