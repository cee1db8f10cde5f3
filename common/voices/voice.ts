import { z } from 'zod';
import { isPlainText } from '../plain-text.ts';

/** Largest definition of a voice, in bytes. It is far more than a definition needs. */
export const MAX_VOICE_BYTES = 64 * 1024;

const text = (longest: number) =>
  z
    .string()
    .trim()
    .min(1, 'must not be empty')
    .max(longest)
    .refine((value) => isPlainText(value) && value.isWellFormed(), 'must be plain text in one line');

const timbrePoint = z.strictObject({
  hz: z.number().min(20).max(20_000),
  db: z.number().min(-18).max(18),
});

/** Fields that only models use. */
const OF_MODELS = ['transpose', 'index_rate', 'protect'] as const;

const voiceFile = z
  .strictObject({
    /** Id by which callers name the voice. */
    id: z
      .string()
      .regex(/^[a-z0-9][a-z0-9-]{0,63}$/, 'must be lower-case letters, digits or "-", at most 64'),
    name: text(100),
    description: text(500),
    /** Pitch range of most speech in this voice, in Hz. A speaker's median pitch is moved to its geometric mean. */
    pitch_hz: z.strictObject({ low: z.number().min(50).max(500), high: z.number().min(50).max(500) }),
    /**
     * Factor on all formant frequencies. Above 1 it corresponds to a shorter vocal tract, below 1 to a longer one.
     */
    formant_shift: z.number().min(0.7).max(1.4),
    /** Curve of gain over frequency: straight between points on a logarithmic frequency axis, level beyond them. */
    timbre: z.array(timbrePoint).max(32).default([]),
    /** Name of a model in the owner's manifest that converts to this voice. Engines that have the model use it. */
    model: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'must be letters, digits, ".", "_" or "-", at most 64')
      .optional(),
    /** With `model`: semitones by which it moves the pitch, instead of moving it into `pitch_hz`. */
    transpose: z.number().min(-24).max(24).optional(),
    /** With `model`: share that its index has in the content that is spoken. */
    index_rate: z.number().min(0).max(1).optional(),
    /** With `model`: how much of that share sounds without a pitch take, such as consonants; 0.5: all of it. */
    protect: z.number().min(0).max(0.5).optional(),
  })
  .superRefine(({ pitch_hz: { low, high }, timbre, ...voice }, context) => {
    const fault = (path: PropertyKey[], message: string) =>
      context.addIssue({ code: 'custom', path, message });
    if (high < 1.05 * low) fault(['pitch_hz', 'high'], 'must be at least 1.05 times low');
    if (high > 2.5 * low) fault(['pitch_hz', 'high'], 'must be at most 2.5 times low');
    for (let i = 1; i < timbre.length; i++) {
      const [before, point] = [timbre[i - 1], timbre[i]];
      if (before && point && point.hz <= before.hz)
        fault(['timbre', i, 'hz'], 'must be above the one before');
    }
    for (const field of OF_MODELS)
      if (voice[field] !== undefined && voice.model === undefined)
        fault([field], 'needs a model: builtin has no use for it');
  })
  .transform(({ pitch_hz, formant_shift, index_rate, ...rest }) => ({
    ...rest,
    ...(index_rate === undefined ? {} : { indexRate: index_rate }),
    pitchHz: pitch_hz,
    formantShift: formant_shift,
  }));

/** A voice that speech is converted to. */
export type Voice = Readonly<z.output<typeof voiceFile>>;

/** A voice in the form of its file, as it is stored, sent and shown. {@link readVoice} reads it. */
export type VoiceDefinition = Readonly<z.input<typeof voiceFile>>;

export function voiceDefinition({ pitchHz, formantShift, indexRate, ...rest }: Voice): VoiceDefinition {
  const { id, name, description, timbre, model, transpose, protect } = rest;
  return {
    id,
    name,
    description,
    pitch_hz: pitchHz,
    formant_shift: formantShift,
    timbre,
    ...(model === undefined ? {} : { model }),
    ...(transpose === undefined ? {} : { transpose }),
    ...(indexRate === undefined ? {} : { index_rate: indexRate }),
    ...(protect === undefined ? {} : { protect }),
  };
}

/** Reports that voice files are missing, unreadable or invalid. It names every fault. */
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

/** Reads a voice from the text of its file. @param file its name in messages @throws VoiceError */
export function parseVoice(content: string, file: string): Voice {
  if (Buffer.byteLength(content) > MAX_VOICE_BYTES)
    throw new VoiceError([`${file}: is larger than ${MAX_VOICE_BYTES / 1024} KiB`]);
  let document: unknown;
  try {
    document = JSON.parse(content);
  } catch (error) {
    throw new VoiceError([`${file}: is not JSON: ${(error as Error).message}`]);
  }
  return readVoice(document, file);
}

/** Reads a voice from its definition. @param file its name in messages @throws VoiceError */
export function readVoice(definition: unknown, file: string): Voice {
  const result = voiceFile.safeParse(definition);
  if (result.success) return result.data;
  throw new VoiceError(
    result.error.issues.map(({ path, message }) => {
      const place = path.length ? `${path.map(String).join('.')}: ` : '';
      return `${file}: ${place}${message}`;
    }),
  );
}
