import { isNewer, type KubeObject } from './resources.ts';

export type Indexers<T> = Readonly<Record<string, (object: T) => readonly string[]>>;

/** A change of the set of objects. Changes are listed in the order in which handlers see them. */
export type Change<T> =
  | { readonly type: 'add'; readonly object: T }
  | { readonly type: 'update'; readonly object: T; readonly old: T }
  | { readonly type: 'delete'; readonly object: T };

/**
 * Last known objects of a selection, keyed by uid. An object that was deleted and created again under one name
 * counts as two, and shows as `delete` then `add` even if both happened unseen.
 */
export interface ObjectStore<T> {
  /** Stores the object unless the store has the same or a newer version of it. */
  put(object: T): Change<T>[];
  /** Removes an object that no longer exists. */
  remove(object: T): Change<T>[];
  /** Takes over a complete snapshot. Removes objects that it lacks, except those written later than the snapshot. */
  replaceAll(objects: readonly T[], resourceVersion: string): Change<T>[];
  byUid(uid: string): T | undefined;
  byName(name: string, namespace?: string): T | undefined;
  byIndex(index: string, value: string): T[];
  list(): T[];
  readonly size: number;
}

export function createObjectStore<T extends KubeObject>(indexers: Indexers<T> = {}): ObjectStore<T> {
  const objects = new Map<string, T>();
  const uids = new Map<string, string>();
  const indexes = new Map(Object.keys(indexers).map((name) => [name, new Map<string, Set<string>>()]));

  const nameKey = (namespace: string | undefined, name: string | undefined) => `${namespace ?? ''}/${name}`;
  const keyOf = (object: T) => nameKey(object.metadata.namespace, object.metadata.name);
  const uidOf = (object: T) => object.metadata.uid ?? '';

  function index(object: T, add: boolean) {
    for (const [name, valuesOf] of Object.entries(indexers)) {
      const entries = indexes.get(name) as Map<string, Set<string>>;
      for (const value of valuesOf(object)) {
        const set = entries.get(value) ?? new Set();
        if (add) entries.set(value, set.add(uidOf(object)));
        else if (set.delete(uidOf(object)) && set.size === 0) entries.delete(value);
      }
    }
  }

  function drop(object: T): Change<T> {
    objects.delete(uidOf(object));
    if (uids.get(keyOf(object)) === uidOf(object)) uids.delete(keyOf(object));
    index(object, false);
    return { type: 'delete', object };
  }

  const store: ObjectStore<T> = {
    put(object) {
      const changes: Change<T>[] = [];
      // Managed fields are a large part of an object, and no caller uses them.
      Object.assign(object.metadata, { managedFields: undefined });
      const old = objects.get(uidOf(object));
      if (old && !isNewer(object.metadata.resourceVersion, old.metadata.resourceVersion)) return changes;
      const namesake = uids.get(keyOf(object));
      const former = namesake === undefined || old ? undefined : objects.get(namesake);
      // A late event of an earlier object with this name must not displace the current one.
      if (former && !isNewer(object.metadata.resourceVersion, former.metadata.resourceVersion))
        return changes;
      if (former) changes.push(drop(former));
      if (old) index(old, false);
      objects.set(uidOf(object), object);
      uids.set(keyOf(object), uidOf(object));
      index(object, true);
      changes.push(old ? { type: 'update', object, old } : { type: 'add', object });
      return changes;
    },
    remove(object) {
      const old = objects.get(uidOf(object));
      if (!old) return [];
      drop(old);
      return [{ type: 'delete', object }];
    },
    replaceAll(listed, resourceVersion) {
      const present = new Set(listed.map(uidOf));
      const gone = [...objects.values()].filter(
        (object) => !present.has(uidOf(object)) && !isNewer(object.metadata.resourceVersion, resourceVersion),
      );
      return [...gone.map(drop), ...listed.flatMap((object) => store.put(object))];
    },
    byUid: (uid) => objects.get(uid),
    byName(name, namespace) {
      const uid = uids.get(nameKey(namespace, name));
      return uid === undefined ? undefined : objects.get(uid);
    },
    byIndex(name, value) {
      const entries = indexes.get(name);
      if (!entries) throw new TypeError(`there is no index ${name}`);
      return [...(entries.get(value) ?? [])].map((uid) => objects.get(uid) as T);
    },
    list: () => [...objects.values()],
    get size() {
      return objects.size;
    },
  };
  return store;
}
