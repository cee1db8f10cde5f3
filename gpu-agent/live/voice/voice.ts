import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';

/** The voices that come with this repository. */
export const SHIPPED_VOICES = join(import.meta.dirname, 'voices');
/** Far more than a description of a voice needs. */
const MAX_BYTES = 64 * 1024;
/** Most voices of one directory. */
const MAX_FILES = 500;

/** Variables of the environment that concern voices. */
export const voiceShape = {
  /** Directory with voices of the owner's, beside those that come along. */
  SEMBLANCE_VOICE_DIR: z.string().startsWith('/', 'must be an absolute path').optional(),
};

/** Where voices are, by the environment. */
export function voiceDirectories({
  SEMBLANCE_VOICE_DIR,
}: z.output<z.ZodObject<typeof voiceShape>>): readonly string[] {
  return SEMBLANCE_VOICE_DIR === undefined ? [SHIPPED_VOICES] : [SHIPPED_VOICES, SEMBLANCE_VOICE_DIR];
}

const text = (longest: number) => z.string().trim().min(1, 'must not be empty').max(longest);

const timbrePoint = z.strictObject({
  hz: z.number().min(20).max(20_000),
  db: z.number().min(-18).max(18),
});

const voiceFile = z
  .strictObject({
    /** What a caller names it by. */
    id: z
      .string()
      .regex(/^[a-z0-9][a-z0-9-]{0,63}$/, 'must be lower-case letters, digits or "-", at most 64'),
    name: text(100),
    description: text(500),
    /** Where speech in this voice mostly lies; its middle (geometric) is where a speaker's median pitch arrives. */
    pitch_hz: z.strictObject({ low: z.number().min(50).max(500), high: z.number().min(50).max(500) }),
    /** Factor on all formant frequencies: above 1 a shorter vocal tract, below 1 a longer one. */
    formant_shift: z.number().min(0.7).max(1.4),
    /** Curve of gain over frequency, straight between its points on a logarithmic axis and level beyond them. */
    timbre: z.array(timbrePoint).max(32).default([]),
    /** Name of a model in the owner's manifest that converts to this voice where an engine has it. */
    model: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'must be letters, digits, ".", "_" or "-", at most 64')
      .optional(),
  })
  .superRefine(({ pitch_hz: { low, high }, timbre }, context) => {
    const fault = (path: PropertyKey[], message: string) =>
      context.addIssue({ code: 'custom', path, message });
    if (high < 1.05 * low) fault(['pitch_hz', 'high'], 'must be at least 1.05 times low');
    if (high > 2.5 * low) fault(['pitch_hz', 'high'], 'must be at most 2.5 times low');
    for (let i = 1; i < timbre.length; i++) {
      const [before, point] = [timbre[i - 1], timbre[i]];
      if (before && point && point.hz <= before.hz)
        fault(['timbre', i, 'hz'], 'must be above the one before');
    }
  })
  .transform(({ pitch_hz, formant_shift, ...rest }) => ({
    ...rest,
    pitchHz: pitch_hz,
    formantShift: formant_shift,
  }));

/** A voice that speech is converted to. */
export type Voice = Readonly<z.output<typeof voiceFile>>;

/** Files of voices are missing, cannot be read, or are not as they should be; every fault is named. */
export class VoiceError extends Error {
  override readonly name = 'VoiceError';
  readonly code = 'invalid_voice';
  readonly retryable = false;
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super(`Voices cannot be used:\n${faults.map((fault) => `  ${fault}`).join('\n')}`);
    this.faults = faults;
  }
}

/** Reads a voice from the text of its file. @param file what to call it in messages @throws VoiceError */
export function parseVoice(content: string, file: string): Voice {
  let document: unknown;
  try {
    document = JSON.parse(content);
  } catch (error) {
    throw new VoiceError([`${file}: is not JSON: ${(error as Error).message}`]);
  }
  const result = voiceFile.safeParse(document);
  if (result.success) return result.data;
  throw new VoiceError(
    result.error.issues.map(({ path, message }) => {
      const place = path.length ? `${path.map(String).join('.')}: ` : '';
      return `${file}: ${place}${message}`;
    }),
  );
}

/**
 * Reads every `*.json` of some directories, sorted by id: the shipped voices and the owner's.
 * @param directories a voice of a later one takes the place of an earlier one's with the same id
 * @throws VoiceError naming every fault of every file; two voices of one directory must not share an id
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
        const voice = await readVoice(join(directory, file));
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

async function readVoice(path: string): Promise<Voice> {
  let content: string;
  try {
    const found = await stat(path);
    if (!found.isFile()) throw new VoiceError([`${path}: is not a file`]);
    if (found.size > MAX_BYTES) throw new VoiceError([`${path}: is larger than ${MAX_BYTES / 1024} KiB`]);
    content = await readFile(path, 'utf8');
  } catch (error) {
    if (error instanceof VoiceError) throw error;
    throw new VoiceError([`${path}: cannot be read: ${(error as Error).message}`]);
  }
  return parseVoice(content, path);
}
