import { randomUUID } from 'node:crypto';
import { readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { type Document, isMap, isSeq, parseDocument } from 'yaml';
import {
  checkManifest,
  MANIFEST_NAMES,
  type ManifestEntry,
  ManifestError,
  readManifest,
} from '../manifest.ts';

/** Fields of an entry as they are written; absent options are left out. */
export type NewEntry = Omit<ManifestEntry, 'options'> & { readonly options?: ManifestEntry['options'] };

/**
 * The manifest of a model directory, to be changed. Comments and the order of a YAML manifest stay; JSON is a part of
 * YAML and is written as JSON again.
 */
export class ManifestFile {
  readonly #directory: string;
  readonly #name: string;
  readonly #document: Document;

  private constructor(directory: string, name: string, document: Document) {
    this.#directory = directory;
    this.#name = name;
    this.#document = document;
  }

  /**
   * Opens the manifest, which may have no models yet, or a new `manifest.yaml` where there is none.
   * @throws ManifestError when there is one that is not valid
   */
  static async open(directory: string): Promise<ManifestFile> {
    for (const name of MANIFEST_NAMES) {
      if (!(await stat(join(directory, name)).catch(() => undefined))) continue;
      const document = parseDocument(await readFile(join(directory, name), 'utf8'));
      const models = document.get('models');
      if (!isSeq(models) || models.items.length > 0) await readManifest(directory);
      return new ManifestFile(directory, name, document);
    }
    return new ManifestFile(directory, 'manifest.yaml', parseDocument('version: 1\nmodels: []\n'));
  }

  get entries(): readonly NewEntry[] {
    return (this.#document.toJS() as { models: readonly NewEntry[] }).models;
  }

  add(entry: NewEntry): void {
    const models = this.#models();
    // The empty list of a new file is written in one line; entries have a line for each field.
    models.flow = false;
    models.add(this.#document.createNode(entry));
  }

  /** @returns the entry that was removed; undefined if there is none of that name */
  remove(name: string): NewEntry | undefined {
    const index = this.entries.findIndex((entry) => entry.name === name);
    const entry = this.entries[index];
    if (entry) this.#models().delete(index);
    return entry;
  }

  /** Sets a field of an entry. */
  set(name: string, field: 'accepted_by', value: string): void {
    const index = this.entries.findIndex((entry) => entry.name === name);
    const node = this.#models().get(index, true);
    if (!isMap(node)) throw new ManifestError([`${this.#name}: there is no model ${name}`]);
    node.set(field, value);
  }

  /**
   * Writes the manifest; one without models is removed, because it would not be valid.
   * @throws ManifestError when a change made it invalid; then nothing is written
   */
  async save(): Promise<void> {
    const path = join(this.#directory, this.#name);
    if (this.entries.length === 0) {
      await rm(path, { force: true });
      return;
    }
    checkManifest(this.#document.toJS(), this.#name);
    const text = this.#name.endsWith('.json')
      ? `${JSON.stringify(this.#document.toJS(), undefined, 2)}\n`
      : this.#document.toString({ lineWidth: 0 });
    await replaceFile(path, text);
  }

  #models() {
    const models = this.#document.get('models');
    if (!isSeq(models)) throw new ManifestError([`${this.#name}: models is no list`]);
    return models;
  }
}

/** Replaces a file in one step, so that a reader sees the old one or the new one. */
export async function replaceFile(path: string, text: string): Promise<void> {
  const next = join(dirname(path), `.${basename(path)}.${randomUUID()}`);
  try {
    await writeFile(next, text);
    await rename(next, path);
  } finally {
    await rm(next, { force: true });
  }
}
