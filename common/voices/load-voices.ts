import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { MAX_VOICE_BYTES, parseVoice, type Voice, VoiceError } from './voice.ts';

/** Folder of the voices that come with this repository. */
export const SHIPPED_VOICES = join(import.meta.dirname, 'shipped');
/** Largest number of voices in one directory. */
const MAX_FILES = 500;

/** Environment variables for voices. */
export const voiceShape = {
  /** Absolute path of a directory with the owner's voices. They are added to the shipped ones. */
  SEMBLANCE_VOICE_DIR: z.string().startsWith('/', 'must be an absolute path').optional(),
};

/** Returns the directories of voices according to the environment. */
export function voiceDirectories({
  SEMBLANCE_VOICE_DIR,
}: z.output<z.ZodObject<typeof voiceShape>>): readonly string[] {
  return SEMBLANCE_VOICE_DIR === undefined ? [SHIPPED_VOICES] : [SHIPPED_VOICES, SEMBLANCE_VOICE_DIR];
}

/**
 * Reads every `*.json` of the directories, sorted by id.
 * @param directories if two of them have a voice with the same id, the later one wins
 * @throws VoiceError that names every fault of every file; two voices of one directory must not share an id
 */
export async function loadVoices(
  directories: readonly string[] = [SHIPPED_VOICES],
): Promise<ReadonlyMap<string, Voice>> {
  const faults: string[] = [];
  const voices = new Map<string, Voice>();
  for (const directory of directories) {
    const here = new Map<string, string>();
    for (const file of await filesOf(directory, faults)) {
      try {
        const voice = await readVoiceFile(join(directory, file));
        const other = here.get(voice.id);
        if (other !== undefined)
          faults.push(`${join(directory, file)}: id: ${voice.id} is that of ${other} too`);
        here.set(voice.id, file);
        voices.set(voice.id, voice);
      } catch (error) {
        if (!(error instanceof VoiceError)) throw error;
        faults.push(...error.faults);
      }
    }
  }
  if (faults.length) throw new VoiceError(faults);
  return new Map([...voices].sort(([a], [b]) => (a < b ? -1 : 1)));
}

async function filesOf(directory: string, faults: string[]): Promise<string[]> {
  try {
    const files = (await readdir(directory)).filter((name) => name.endsWith('.json')).sort();
    if (files.length > MAX_FILES) faults.push(`${directory}: has more than ${MAX_FILES} files`);
    return files.slice(0, MAX_FILES);
  } catch (error) {
    faults.push(`${directory}: cannot be read: ${(error as Error).message}`);
    return [];
  }
}

async function readVoiceFile(path: string): Promise<Voice> {
  let content: string;
  try {
    const found = await stat(path);
    if (!found.isFile()) throw new VoiceError([`${path}: is not a file`]);
    if (found.size > MAX_VOICE_BYTES)
      throw new VoiceError([`${path}: is larger than ${MAX_VOICE_BYTES / 1024} KiB`]);
    content = await readFile(path, 'utf8');
  } catch (error) {
    if (error instanceof VoiceError) throw error;
    throw new VoiceError([`${path}: cannot be read: ${(error as Error).message}`]);
  }
  return parseVoice(content, path);
}
