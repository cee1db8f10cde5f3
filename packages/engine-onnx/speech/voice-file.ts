import { readFile, stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { z } from 'zod';
import type { BoundTensor } from '../contracts/fit.ts';

const MAX_BYTES = 1024 * 1024;

const number = z.number().int().min(0).max(10_000);
const scale = z.number().min(0).max(10);

const file = z.object({
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

/** What the file beside a voice says: see {@link PIPER}. */
export type VoiceFile = z.output<typeof file>;

/**
 * Reads the JSON file beside a voice, and compares it with the model.
 * @param path of the model
 */
export async function checkSpeech(
  path: string,
  inputs: readonly BoundTensor[],
): Promise<{ readonly file: VoiceFile } | { readonly faults: readonly string[] }> {
  const json = `${path}.json`;
  const name = basename(json);
  let document: unknown;
  try {
    if ((await stat(json)).size > MAX_BYTES) return { faults: [`${name}: is larger than 1 MiB`] };
    document = JSON.parse(await readFile(json, 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT')
      return { faults: [`there is no ${name} beside it, which says how the voice reads`] };
    return { faults: [`${name}: cannot be read: ${(error as Error).message}`] };
  }
  const result = file.safeParse(document);
  if (!result.success) {
    return {
      faults: result.error.issues.map(({ path: at, message }) => `${name}: ${at.join('.')}: ${message}`),
    };
  }
  const several = result.data.num_speakers > 1;
  if (several !== inputs.some(({ role }) => role === 'sid')) {
    const found = `${several ? 'no' : 'an'} input "sid"`;
    return { faults: [`${name}: num_speakers: is ${result.data.num_speakers}, and the model has ${found}`] };
  }
  return { file: result.data };
}
