import { describe, expect, it } from 'vitest';
import { createObjectStore } from './object-store.ts';
import { isNewer, type KubeObject } from './resources.ts';

const object = (name: string, uid: string, version: number): KubeObject => ({
  metadata: { namespace: 'ns', name, uid, resourceVersion: String(version) },
});
const short = (changes: { type: string; object: KubeObject }[]) =>
  changes.map(
    ({ type, object: { metadata } }) =>
      `${type} ${metadata.name}/${metadata.uid}@${metadata.resourceVersion}`,
  );

describe('the store', () => {
  it('takes each version once and none that is older', () => {
    const store = createObjectStore();
    expect(short(store.put(object('a', '1', 9)))).toEqual(['add a/1@9']);
    expect(short(store.put(object('a', '1', 10)))).toEqual(['update a/1@10']);
    expect(store.put(object('a', '1', 10))).toEqual([]);
    expect(store.put(object('a', '1', 9))).toEqual([]);
    expect(short(store.remove(object('a', '1', 12)))).toEqual(['delete a/1@12']);
    expect(store.remove(object('a', '1', 12))).toEqual([]);
    expect([store.size, store.byName('a', 'ns')]).toEqual([0, undefined]);
  });

  it('takes a name made anew for another object', () => {
    const store = createObjectStore();
    store.put(object('a', '1', 5));
    expect(short(store.put(object('a', '2', 8)))).toEqual(['delete a/1@5', 'add a/2@8']);
    // A late event of the former object changes nothing.
    expect(store.put(object('a', '1', 6))).toEqual([]);
    expect(store.remove(object('a', '1', 7))).toEqual([]);
    expect(store.byName('a', 'ns')?.metadata.uid).toBe('2');
  });

  it('takes over a snapshot, but keeps what was written after it', () => {
    const store = createObjectStore();
    store.put(object('gone', '1', 5));
    store.put(object('reborn', '2', 6));
    store.put(object('written-since', '3', 30));
    store.put(object('newer-here', '4', 31));
    const listed = [object('reborn', '5', 12), object('newer-here', '4', 7), object('new', '6', 13)];
    expect(short(store.replaceAll(listed, '20'))).toEqual([
      'delete gone/1@5',
      'delete reborn/2@6',
      'add reborn/5@12',
      'add new/6@13',
    ]);
    expect(store.byUid('3')?.metadata.resourceVersion).toBe('30');
    expect(store.byUid('4')?.metadata.resourceVersion).toBe('31');
  });

  it('indexes by several values and keeps the indexes true', () => {
    const store = createObjectStore<KubeObject>({
      label: ({ metadata }) => Object.keys(metadata.labels ?? {}),
    });
    const labelled = (version: number, ...labels: string[]): KubeObject => ({
      metadata: {
        ...object('a', '1', version).metadata,
        labels: Object.fromEntries(labels.map((l) => [l, ''])),
      },
    });
    store.put(labelled(1, 'x', 'y'));
    expect([store.byIndex('label', 'x').length, store.byIndex('label', 'y').length]).toEqual([1, 1]);
    store.put(labelled(2, 'y', 'z'));
    expect(['x', 'y', 'z'].map((label) => store.byIndex('label', label).length)).toEqual([0, 1, 1]);
    store.remove(labelled(3));
    expect(['x', 'y', 'z'].map((label) => store.byIndex('label', label).length)).toEqual([0, 0, 0]);
    expect(() => store.byIndex('none', 'x')).toThrow('no index');
  });
});

it('compares versions as numbers', () => {
  expect([isNewer('10', '9'), isNewer('9', '10'), isNewer('9', '9')]).toEqual([true, false, false]);
  expect([isNewer('1', undefined), isNewer(undefined, '1')]).toEqual([true, false]);
});
