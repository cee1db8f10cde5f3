import { type FileHandle, open, readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { CHARACTER_ID } from '@semblance/common/live-prompt';
import { sniffFormat } from '@semblance/vision/image/container';
import { z } from 'zod';

/** The characters in this repository. */
export const SHIPPED_CHARACTERS = join(import.meta.dirname, 'characters');
const DESCRIPTION = 'character.json';
/** Largest size of a description. */
const MAX_DESCRIPTION_BYTES = 64 * 1024;
const MAX_PORTRAIT_BYTES = 20 * 1024 * 1024;
/** Largest number of characters in one directory. */
const MAX_FOLDERS = 500;

/** Environment variables of characters. */
export const characterShape = {
  /** Directory with the owner's character packs, in addition to the shipped ones. */
  SEMBLANCE_CHARACTER_DIR: z.string().startsWith('/', 'must be an absolute path').optional(),
};

/** Returns the directories of character packs from the environment. */
export function characterDirectories({
  SEMBLANCE_CHARACTER_DIR,
}: z.output<z.ZodObject<typeof characterShape>>): readonly string[] {
  return SEMBLANCE_CHARACTER_DIR === undefined
    ? [SHIPPED_CHARACTERS]
    : [SHIPPED_CHARACTERS, SEMBLANCE_CHARACTER_DIR];
}

const text = (longest: number) => z.string().trim().min(1, 'must not be empty').max(longest);

const packFile = z.strictObject({
  name: text(100),
  description: text(500),
  /** A file beside this one. */
  portrait: z
    .string()
    .regex(
      /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$/,
      'must be the name of a file beside it, of letters, digits, ".", "_" or "-"',
    ),
});

/** A person whose face a caller can put on. */
export interface Character {
  /** Name by which a caller selects it: the name of its folder. */
  readonly id: string;
  readonly name: string;
  readonly description: string;
  /** Path of the portrait. */
  readonly portrait: string;
}

/** Character packs are missing, unreadable or malformed; the error names every fault. */
export class CharacterError extends Error {
  override readonly name = 'CharacterError';
  readonly code = 'invalid_character';
  readonly retryable = false;
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super(`Characters cannot be used:\n${faults.map((fault) => `  ${fault}`).join('\n')}`);
    this.faults = faults;
  }
}

/**
 * Reads every character pack of some directories, sorted by id: each folder in them whose name has no leading dot.
 * @param directories a character of a later one replaces an earlier one with the same id
 * @throws CharacterError naming every fault of every pack
 */
export async function loadCharacters(
  directories: readonly string[] = [SHIPPED_CHARACTERS],
): Promise<ReadonlyMap<string, Character>> {
  const faults: string[] = [];
  const characters = new Map<string, Character>();
  for (const directory of directories) {
    for (const id of await foldersOf(directory, faults)) {
      const character = await readPack(join(directory, id), id, faults);
      if (character) characters.set(id, character);
    }
  }
  if (faults.length) throw new CharacterError(faults);
  return new Map([...characters].sort(([a], [b]) => (a < b ? -1 : 1)));
}

async function foldersOf(directory: string, faults: string[]): Promise<string[]> {
  try {
    const names = (await readdir(directory)).filter((name) => !name.startsWith('.')).sort();
    const folders: string[] = [];
    for (const name of names) if ((await stat(join(directory, name))).isDirectory()) folders.push(name);
    if (folders.length > MAX_FOLDERS) faults.push(`${directory}: has more than ${MAX_FOLDERS} folders`);
    return folders.slice(0, MAX_FOLDERS);
  } catch (error) {
    faults.push(`${directory}: cannot be read: ${(error as Error).message}`);
    return [];
  }
}

async function readPack(folder: string, id: string, faults: string[]): Promise<Character | undefined> {
  const before = faults.length;
  if (!CHARACTER_ID.test(id))
    faults.push(`${folder}: its name must be lower-case letters, digits or "-", at most 64`);
  const file = join(folder, DESCRIPTION);
  const document = await readJson(file, faults);
  if (document === undefined) return undefined;
  const { success, data, error } = packFile.safeParse(document);
  if (!success) {
    for (const { path, message } of error.issues) {
      faults.push(`${file}: ${path.length ? `${path.map(String).join('.')}: ` : ''}${message}`);
    }
    return undefined;
  }
  const portrait = join(folder, data.portrait);
  const fault = await portraitFault(portrait);
  if (fault) faults.push(`${portrait}: ${fault}`);
  return faults.length > before ? undefined : { ...data, id, portrait };
}

async function readJson(file: string, faults: string[]): Promise<unknown> {
  try {
    const found = await stat(file);
    if (!found.isFile()) throw new Error('it is not a file');
    if (found.size > MAX_DESCRIPTION_BYTES)
      throw new Error(`it is larger than ${MAX_DESCRIPTION_BYTES / 1024} KiB`);
    const content = await readFile(file, 'utf8');
    try {
      return JSON.parse(content);
    } catch (error) {
      faults.push(`${file}: is not JSON: ${(error as Error).message}`);
    }
  } catch (error) {
    faults.push(`${file}: cannot be read: ${(error as Error).message}`);
  }
  return undefined;
}

async function portraitFault(path: string): Promise<string | undefined> {
  let file: FileHandle | undefined;
  try {
    file = await open(path, 'r');
    const found = await file.stat();
    if (!found.isFile()) return 'is not a file';
    if (found.size > MAX_PORTRAIT_BYTES) return `is larger than ${MAX_PORTRAIT_BYTES / 1024 / 1024} MiB`;
    const head = Buffer.alloc(16);
    await file.read(head, 0, head.length, 0);
    return sniffFormat(head) ? undefined : 'is not a JPEG, PNG or WebP file';
  } catch (error) {
    return `cannot be read: ${(error as Error).message}`;
  } finally {
    await file?.close();
  }
}
