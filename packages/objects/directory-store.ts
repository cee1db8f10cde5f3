import { createHash, randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { addAbortSignal, Readable } from 'node:stream';
import { DamagedObjectError, encodeFooter, type Footer, readFooter } from './footer.ts';
import { LinkSigner } from './link-signer.ts';
import { type LinkMethod, type LinkVerdict, verifyLink } from './links.ts';
import {
  checkKey,
  type ObjectInfo,
  ObjectNotFoundError,
  type ObjectStore,
  type StoredObject,
} from './store.ts';
import { TemporaryFiles } from './temporary-files.ts';
import { writeAll, writeStream } from './write-stream.ts';

const SWEEP_EVERY_MS = 60_000;
/** Bytes read from a file at once. A reader that takes nothing keeps one such piece in memory. */
const READ_BYTES = 32 * 1024;
/** Names of the folders and of the files with objects; the store ignores all others. */
const SHARD = /^[0-9a-f]{2}$/;
const NAME = /^[0-9a-f]{64}$/;

export interface DirectoryStoreOptions {
  /** Absolute path of a folder for this store only; created when missing. */
  readonly folder: string;
  readonly signingKey: Buffer;
  /** Origin at which clients reach the gateway. */
  readonly publicUrl: string;
  /** Origin at which agents reach the gateway. Default: `publicUrl`. */
  readonly internalUrl?: string;
}

/** An object opened for reading. It still reads the old content after the object is replaced or deleted. */
export interface OpenObject extends ObjectInfo {
  /** Changes with every write; contains no quotes. */
  readonly version: string;
  readonly storedAt: Date;
  /**
   * Yields the bytes from `start` to `end`, both included, in pieces. All are read into one memory, so a piece is valid
   * until the next is asked for.
   */
  pieces(range?: { start: number; end: number }): AsyncGenerator<Buffer>;
  close(): Promise<void>;
}

export interface ObjectsPage {
  readonly objects: readonly StoredObject[];
  /** Value of `after` for the next page; undefined for the last page. */
  readonly next?: string;
}

/**
 * Stores objects as files of one folder, shared by all processes that open it; the gateway serves its links.
 *
 * `objects/<2 hex>/<sha-256 of the key>` contains the bytes and, after them, the content type (see footer.ts). A write goes to `tmp/`, is synced and renamed, and the folder is synced: after a crash there is the old object or the new one.
 */
export class DirectoryStore extends LinkSigner implements ObjectStore {
  readonly #options: DirectoryStoreOptions;
  readonly #temporary: TemporaryFiles;
  readonly #sweeper: NodeJS.Timeout;
  #sweeping: Promise<unknown>;

  constructor(options: DirectoryStoreOptions) {
    super(options);
    this.#options = options;
    const tmp = join(options.folder, 'tmp');
    mkdirSync(tmp, { recursive: true, mode: 0o770 });
    mkdirSync(join(options.folder, 'objects'), { recursive: true, mode: 0o770 });
    this.#temporary = new TemporaryFiles(tmp);
    // Leftovers cost only space, so a failed sweep is just repeated a minute later.
    const sweep = () => {
      this.#sweeping = this.#temporary.sweep().catch(() => 0);
    };
    this.#sweeping = this.#temporary.sweep().catch(() => 0);
    this.#sweeper = setInterval(sweep, SWEEP_EVERY_MS).unref();
  }

  get folder(): string {
    return this.#options.folder;
  }

  async put(key: string, source: Readable, options: { contentType: string; signal?: AbortSignal }) {
    const target = this.#pathOf(key);
    options.signal?.throwIfAborted();
    if (options.signal) addAbortSignal(options.signal, source);
    // An error of the source before it is read must not be unhandled.
    source.on('error', () => {});
    const path = this.#temporary.newPath();
    try {
      const handle = await open(path, 'wx', 0o660);
      let sizeBytes: number;
      try {
        sizeBytes = await writeStream(handle, source);
        const { contentType } = options;
        await writeAll(handle, [
          encodeFooter({ key, contentType, version: randomUUID(), storedAt: Date.now() }),
        ]);
        await handle.datasync();
      } finally {
        await handle.close();
      }
      options.signal?.throwIfAborted();
      await moveInto(path, target);
      return { sizeBytes };
    } catch (error) {
      source.destroy();
      await rm(path, { force: true });
      throw error;
    }
  }

  async info(key: string): Promise<ObjectInfo> {
    const { sizeBytes, contentType, close } = await this.open(key);
    await close();
    return { sizeBytes, contentType };
  }

  async read(key: string): Promise<Readable> {
    const object = await this.open(key);
    const stream = Readable.from(copiesOf(object.pieces()), { objectMode: false });
    // A stream that is destroyed before it is read never begins its generator.
    stream.once('close', () => void object.close());
    return stream;
  }

  /** @throws ObjectNotFoundError */
  async open(key: string): Promise<OpenObject> {
    let handle: FileHandle;
    try {
      handle = await open(this.#pathOf(key), 'r');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw notFound(key, error);
      throw error;
    }
    try {
      const { footer, sizeBytes } = await readFooter(handle);
      if (footer.key !== key) throw new DamagedObjectError('a stored object is in the place of another');
      return {
        sizeBytes,
        contentType: footer.contentType,
        version: footer.version,
        storedAt: new Date(footer.storedAt),
        pieces: (range = { start: 0, end: sizeBytes - 1 }) => piecesOf(handle, range),
        close: () => handle.close(),
      };
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  async delete(key: string): Promise<void> {
    await rm(this.#pathOf(key), { force: true });
  }

  /** Reads the end of every file, and is slow on purpose. Damaged and foreign files are skipped. */
  async *list(prefix: string): AsyncGenerator<StoredObject> {
    for await (const { object } of this.#files()) if (object?.key.startsWith(prefix)) yield object;
  }

  /**
   * Returns the objects with a prefix among the next `files` files, and where to go on.
   * @param after `next` of the page before
   */
  async listPage(
    prefix: string,
    { after, files }: { after?: string | undefined; files: number },
  ): Promise<ObjectsPage> {
    const objects: StoredObject[] = [];
    let looked = 0;
    for await (const { name, object } of this.#files(after)) {
      if (object?.key.startsWith(prefix)) objects.push(object);
      if (++looked >= files) return { objects, next: name };
    }
    return { objects };
  }

  /** Yields every file after a name, in the order of names, with the object in it. */
  async *#files(after = ''): AsyncGenerator<{ name: string; object: StoredObject | undefined }> {
    const objects = join(this.#options.folder, 'objects');
    for (const shard of (await readdir(objects)).sort()) {
      if (!SHARD.test(shard) || shard < after.slice(0, 2)) continue;
      const names = await readdir(join(objects, shard)).catch(() => []);
      for (const name of names.sort()) {
        if (!NAME.test(name) || name <= after) continue;
        const found = await footerOf(join(objects, shard, name));
        const object = found && {
          key: found.footer.key,
          sizeBytes: found.sizeBytes,
          storedAt: new Date(found.footer.storedAt),
        };
        yield { name, object };
      }
    }
  }

  /** Checks a link for the gateway, which serves the links. */
  verify(method: LinkMethod, key: string, query: URLSearchParams, now?: Date): LinkVerdict {
    return verifyLink(this.#options.signingKey, method, key, query, now);
  }

  async close(): Promise<void> {
    clearInterval(this.#sweeper);
    await this.#sweeping;
  }

  #pathOf(key: string): string {
    checkKey(key);
    const hash = createHash('sha256').update(key).digest('hex');
    return join(this.#options.folder, 'objects', hash.slice(0, 2), hash);
  }
}

async function footerOf(path: string): Promise<{ footer: Footer; sizeBytes: number } | undefined> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(path, 'r');
    return await readFooter(handle);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (error instanceof DamagedObjectError || code === 'ENOENT' || code === 'EISDIR') return undefined;
    throw error;
  } finally {
    await handle?.close();
  }
}

async function moveInto(path: string, target: string): Promise<void> {
  const shard = dirname(target);
  const made = await mkdir(shard, { recursive: true, mode: 0o770 });
  await rename(path, target);
  await syncFolder(shard);
  if (made) await syncFolder(dirname(shard));
}

async function syncFolder(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function notFound(key: string, cause: unknown): ObjectNotFoundError {
  return new ObjectNotFoundError(`nothing is stored under ${key}`, { cause });
}

/** Yields pieces that stay valid. */
async function* copiesOf(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  for await (const piece of pieces) yield Buffer.from(piece);
}

async function* piecesOf(handle: FileHandle, { start, end }: { start: number; end: number }) {
  const memory = Buffer.allocUnsafeSlow(Math.max(1, Math.min(READ_BYTES, end - start + 1)));
  for (let at = start; at <= end; ) {
    const { bytesRead } = await handle.read(memory, 0, Math.min(memory.length, end - at + 1), at);
    if (bytesRead === 0) throw new DamagedObjectError('a stored object is shorter than it was');
    at += bytesRead;
    yield memory.subarray(0, bytesRead);
  }
}
