import { mkdir, readFile, realpath, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { DownloadError, downloadRest } from '@semblance/common/download';
import { describeError } from '@semblance/common/errors';
import { parse, stringify } from 'yaml';
import {
  checkManifest,
  MANIFEST_NAMES,
  type Manifest,
  type ManifestEntry,
  ManifestError,
} from '../manifest.ts';
import { locate, sha256 } from '../model-files.ts';
import { replaceFile } from './manifest-file.ts';

/** First line of a manifest that `fetchModels` wrote; it replaces no other. */
const HEADER = '# Written by "models fetch" from model sets. It is written anew by the next.';
const CONNECT_MS = 30_000;
const STALL_MS = 60_000;
const TRIES = 5;
const FIRST_PAUSE_MS = 1_000;

/** Models of a set cannot be fetched; the message says which and why. */
export class FetchError extends Error {
  override readonly name = 'FetchError';
}

export interface FetchOptions {
  /** Files with model sets: manifests whose entries have a `url`. */
  readonly sets: readonly string[];
  readonly directory: string;
  /** Value of the header `Authorization` of each request. */
  readonly authorization?: string | undefined;
  readonly signal: AbortSignal;
  /** Receives sentences about the progress, at most one every few seconds. */
  readonly say: (line: string) => void;
  /** For tests. */
  readonly firstPauseMs?: number;
}

/**
 * Brings all models of the sets into a directory and writes its manifest last, so that a directory with a manifest is
 * complete. Files that are there already are not fetched again, and an interrupted download resumes.
 * @throws FetchError, ManifestError, or the signal's reason
 */
export async function fetchModels(options: FetchOptions): Promise<void> {
  const { directory, say } = options;
  const manifest = mergeSets(await Promise.all(options.sets.map(readSet)));
  const { models: entries } = manifest;
  await mkdir(directory, { recursive: true });
  await assertOurs(directory);
  const root = await realpath(directory);
  const files = entries.flatMap(filesOf);
  for (const [index, file] of files.entries()) {
    const of = `${file.name} (${index + 1} of ${files.length})`;
    if (await isThere(root, file)) say(`${of}: is there`);
    else await fetchOne(root, file, of, options);
  }
  const text = `${HEADER}\n${stringify(manifest)}`;
  await replaceFile(join(root, 'manifest.yaml'), text);
  say(`${entries.length} models are in ${directory}`);
}

/** A file of an entry: the model, the index of a voice, or one beside it. */
interface WantedFile {
  readonly name: string;
  readonly file: string;
  readonly sha256: string;
  readonly url?: string | undefined;
}

function filesOf(entry: ManifestEntry): readonly WantedFile[] {
  const { name, index, beside = [] } = entry;
  const others = beside.map((each) => ({ ...each, name: `${each.file} of ${name}` }));
  return [entry, ...(index ? [{ ...index, name: `index of ${name}` }] : []), ...others];
}

async function readSet(path: string): Promise<Manifest> {
  let document: unknown;
  try {
    document = parse(await readFile(path, 'utf8'));
  } catch (error) {
    throw new ManifestError([`${path}: cannot be read: ${describeError(error)}`]);
  }
  const manifest = checkManifest(document, path);
  const without = manifest.models.flatMap(filesOf).filter(({ url }) => url === undefined);
  if (without.length > 0)
    throw new ManifestError(without.map(({ name }) => `${path}: ${name}: has no url to fetch it from`));
  return manifest;
}

/** Returns all sets as one; an entry that is in several counts once. @throws ManifestError */
function mergeSets(sets: readonly Manifest[]): Manifest {
  const orders = new Set(sets.map(({ order }) => order.join()));
  if (orders.size > 1) throw new ManifestError(['order: the sets have different ones']);
  const merged = new Map<string, ManifestEntry>();
  for (const entry of sets.flatMap(({ models }) => models)) {
    const before = [...merged.values()].find(({ name, file }) => name === entry.name || file === entry.file);
    if (before && JSON.stringify(before) !== JSON.stringify(entry))
      throw new ManifestError([`${entry.name} (${entry.file}): another set has it otherwise`]);
    merged.set(entry.name, entry);
  }
  const [first] = sets;
  return checkManifest(
    { version: 1, order: first?.order, models: [...merged.values()] },
    'the sets together',
  );
}

async function assertOurs(directory: string): Promise<void> {
  for (const name of MANIFEST_NAMES) {
    const text = await readFile(join(directory, name), 'utf8').catch(() => undefined);
    if (text !== undefined && !text.startsWith(HEADER))
      throw new FetchError(
        `${join(directory, name)} was not written by this command; say an empty directory`,
      );
  }
}

async function isThere(root: string, wanted: WantedFile): Promise<boolean> {
  return 'path' in (await locate(root, wanted));
}

async function fetchOne(root: string, entry: WantedFile, of: string, options: FetchOptions): Promise<void> {
  const { signal, say, firstPauseMs = FIRST_PAUSE_MS } = options;
  const target = join(root, entry.file);
  // The hash in the name keeps the rest of another version from being continued.
  const part = join(dirname(target), `.${entry.sha256.slice(0, 16)}.part`);
  await mkdir(dirname(target), { recursive: true });
  for (let tries = 1; ; tries++) {
    try {
      await downloadOnce(entry, part, of, options);
      break;
    } catch (error) {
      signal.throwIfAborted();
      const { status } = error as Partial<DownloadError>;
      const final =
        !(error instanceof DownloadError) || (status !== undefined && status < 500 && status !== 429);
      if (final || tries === TRIES) throw new FetchError(`${of}: ${describeError(error)}`, { cause: error });
      say(`${of}: ${describeError(error)}; trying again`);
      await sleep(firstPauseMs * 2 ** (tries - 1), undefined, { signal });
    }
  }
  try {
    const found = await sha256(part, signal);
    if (found === entry.sha256) return await rename(part, target);
    await rm(part, { force: true });
    throw new FetchError(`${of}: ${entry.url} has the sha256 ${found}, not ${entry.sha256}; it was deleted`);
  } catch (error) {
    // Another process on the same volume may have finished the file.
    const gone = (error as NodeJS.ErrnoException).code === 'ENOENT';
    if (!gone || !(await isThere(root, entry))) throw error;
  }
}

/** Seconds between two lines about one file. */
const SAY_EVERY = 5;

async function downloadOnce(
  { url = '' }: WantedFile,
  part: string,
  of: string,
  { authorization, signal, say }: FetchOptions,
): Promise<void> {
  let saidAt = performance.now();
  const mib = (bytes: number) => Math.round(bytes / 1024 ** 2);
  const begun = await stat(part).catch(() => undefined);
  say(begun ? `${of}: going on after ${mib(begun.size)} MiB` : `${of}: fetching`);
  await downloadRest(url, part, {
    connectMs: CONNECT_MS,
    stallMs: STALL_MS,
    signal,
    headers: authorization ? { Authorization: authorization } : {},
    onBytes(bytes, total) {
      if (performance.now() - saidAt < SAY_EVERY * 1000) return;
      saidAt = performance.now();
      say(`${of}: ${mib(bytes)}${total > 0 ? ` of ${mib(total)}` : ''} MiB`);
    },
  });
}
