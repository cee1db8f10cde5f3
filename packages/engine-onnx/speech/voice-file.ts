import { readFile, stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { z } from 'zod';
import type { SpeechEdit } from '../contracts/contract.ts';
import type { BoundTensor } from '../contracts/fit.ts';
import { type NpyArray, NpzError, readNpz } from './npz.ts';

const MAX_BYTES = 2 ** 20;
const MAX_STYLES_BYTES = 128 * 2 ** 20;
/** Numbers of one style of Kokoro. */
export const STYLE = 256;

const number = z.number().int().min(0).max(10_000);
const scale = z.number().min(0).max(10);

/** Piper's file. */
const piper = z.object({
  audio: z.object({ sample_rate: z.number().int().min(8_000).max(48_000) }),
  espeak: z.object({ voice: z.string().regex(/^[A-Za-z0-9-]{2,40}$/, 'must be a voice of espeak-ng') }),
  /** How texts become phonemes. The other ways of Piper need programs that are not here. */
  phoneme_type: z
    .literal('espeak', 'must be espeak: no other way from texts to phonemes is known here')
    .default('espeak'),
  inference: z
    .object({
      noise_scale: scale.default(0.667),
      length_scale: scale.gt(0).default(1),
      noise_w: scale.default(0.8),
    })
    .default({ noise_scale: 0.667, length_scale: 1, noise_w: 0.8 }),
  language: z.object({ code: z.string().regex(/^[A-Za-z]{2,3}([_-][A-Za-z0-9]{1,8})*$/) }).optional(),
  num_speakers: z.number().int().min(1).max(10_000).default(1),
  speaker_id_map: z.record(z.string().min(1).max(64), number).default({}),
  phoneme_id_map: z
    .record(z.string(), z.array(number).min(1).max(4))
    .refine((map) => ['_', '^', '$'].every((one) => one in map), 'must have _, ^ and $'),
});

/** Kokoro's `config.json`; other fields are not read. */
const vocabulary = z.object({
  vocab: z.record(z.string().min(1).max(8), number).refine((map) => Object.keys(map).length > 0, 'is empty'),
});

/** What the files beside a voice say. */
export type SpeechFiles =
  | { readonly kind: 'piper'; readonly file: z.output<typeof piper> }
  | {
      readonly kind: 'kokoro';
      /** Numbers of the phonemes. */
      readonly vocabulary: Readonly<Record<string, number>>;
      /** Styles by name, each with {@link STYLE} numbers for every number of phonemes. */
      readonly styles: ReadonlyMap<string, Float32Array>;
    };

/**
 * Reads the files beside a voice, and compares them with the model.
 * @param path of the model
 */
export async function checkSpeech(
  path: string,
  kind: SpeechEdit,
  inputs: readonly BoundTensor[],
): Promise<{ readonly files: SpeechFiles } | { readonly faults: readonly string[] }> {
  try {
    if (kind === 'piper') return { files: { kind, file: await piperFile(path, inputs) } };
    const { vocab } = await readJson(path, vocabulary);
    return { files: { kind, vocabulary: vocab, styles: await stylesOf(path) } };
  } catch (error) {
    if (error instanceof VoiceFault) return { faults: error.faults };
    throw error;
  }
}

class VoiceFault extends Error {
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super(faults.join('; '));
    this.faults = faults;
  }
}

async function piperFile(path: string, inputs: readonly BoundTensor[]): Promise<z.output<typeof piper>> {
  const found = await readJson(path, piper);
  const several = found.num_speakers > 1;
  if (several !== inputs.some(({ role }) => role === 'sid')) {
    const takes = `${several ? 'no' : 'an'} input "sid"`;
    throw new VoiceFault([
      `${basename(path)}.json: num_speakers: is ${found.num_speakers}, and the model has ${takes}`,
    ]);
  }
  return found;
}

async function readJson<T>(path: string, schema: z.ZodType<T>): Promise<T> {
  const name = `${basename(path)}.json`;
  const bytes = await beside(path, 'json', MAX_BYTES, 'which says how the voice reads');
  let document: unknown;
  try {
    document = JSON.parse(bytes.toString('utf8'));
  } catch (error) {
    throw new VoiceFault([`${name}: cannot be read: ${(error as Error).message}`]);
  }
  const result = schema.safeParse(document);
  if (result.success) return result.data;
  throw new VoiceFault(
    result.error.issues.map(({ path: at, message }) => `${name}: ${at.join('.')}: ${message}`),
  );
}

async function stylesOf(path: string): Promise<ReadonlyMap<string, Float32Array>> {
  const name = `${basename(path)}.npz`;
  const bytes = await beside(path, 'npz', MAX_STYLES_BYTES, 'which has its styles');
  let arrays: ReadonlyMap<string, NpyArray>;
  try {
    arrays = readNpz(bytes, MAX_STYLES_BYTES);
  } catch (error) {
    if (error instanceof NpzError) throw new VoiceFault([`${name}: ${error.message}`]);
    throw error;
  }
  const faults = [...arrays].flatMap(([style, { shape }]) =>
    shape.at(-1) === STYLE && shape.length <= 3 && shape.slice(1, -1).every((size) => size === 1)
      ? []
      : [`${name}: ${style}: expected [N, 1, ${STYLE}], found [${shape.join(', ')}]`],
  );
  if (faults.length > 0 || arrays.size === 0)
    throw new VoiceFault(faults.length > 0 ? faults : [`${name}: has no style`]);
  return new Map([...arrays].map(([style, { data }]) => [style, data]));
}

/** Reads a file beside a model. */
async function beside(path: string, ending: string, most: number, what: string): Promise<Buffer> {
  const file = `${path}.${ending}`;
  const name = basename(file);
  try {
    const { size } = await stat(file);
    if (size > most) throw new VoiceFault([`${name}: is larger than ${most / 2 ** 20} MiB`]);
    return await readFile(file);
  } catch (error) {
    if (error instanceof VoiceFault) throw error;
    const missing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    throw new VoiceFault([
      missing
        ? `there is no ${name} beside it, ${what}`
        : `${name}: cannot be read: ${(error as Error).message}`,
    ]);
  }
}
