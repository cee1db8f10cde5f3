import { tmpdir } from 'node:os';
import { START, STOP } from '@semblance/speech/neural';
import { medianPitch } from '@semblance/speech/pitch';
import { Speaker } from '@semblance/speech/speaker';
import type { NeuralVoice, SpeechTools } from '@semblance/speech/speech-tools';
import type { CheckedModel } from '../model-dir.ts';
import type { FloatTensor, FloatTensors } from '../sessions/protocol.ts';
import type { SessionPool } from '../sessions/session-pool.ts';
import { openModel } from '../stages/models.ts';
import { type SpeechFiles, STYLE } from './voice-file.ts';

/**
 * Median pitch from which a voice sounds like a woman's, in Hz: between the means of men and women in read speech,
 * about 120 and 200 (Baken and Orlikoff, "Clinical Measurement of Speech and Voice", 2000).
 */
const WOMAN_HZ = 160;
/** A text that is read in every language, and long enough to hear the pitch. */
const TRIAL = '1, 2, 3, 4, 5, 6, 7, 8, 9.';

/** Languages of Kokoro's styles by the first letter of their names (its VOICES.md), as espeak-ng names them. */
const KOKORO_LANGUAGES: Readonly<Record<string, string>> = {
  a: 'en-us',
  b: 'en-gb',
  e: 'es',
  f: 'fr-fr',
  h: 'hi',
  i: 'it',
  p: 'pt-br',
};
const KOKORO_RATE = 24_000;
/**
 * Frames by which Kokoro's sound is earlier than its lengths say: measured, where vowels are against where the sound is
 * loud. Its own pipeline.py takes 3.
 */
const KOKORO_EARLY = 2.5;
/** Most phonemes of one run of Kokoro, without the zeros around them. */
const KOKORO_MOST = 510;

/**
 * Opens the voices of a model directory. Each model speaks once, which tells whether it works and, of Piper's, what it
 * sounds like.
 * @throws Error naming a voice whose texts espeak-ng cannot read
 */
export async function openVoices(
  pool: SessionPool,
  models: readonly CheckedModel[],
  tools: SpeechTools,
  signal: AbortSignal,
): Promise<readonly NeuralVoice[]> {
  const voices: NeuralVoice[] = [];
  for (const model of models) {
    const own = voicesOf(pool, model);
    for (const { espeak } of own) {
      if (!tools.espeak?.voices.has(espeak))
        throw new Error(`${model.name} (${model.file}): this espeak-ng has no voice ${espeak}`);
    }
    const [first, ...others] = own;
    if (!first) throw unreadable(model);
    const sounding = await soundOf(first, tools, signal);
    voices.push({ ...first, sounding: first.sounding ?? sounding }, ...others);
  }
  return voices;
}

function unreadable({ name, file, speech }: CheckedModel): Error {
  const styles = speech?.kind === 'kokoro' ? [...speech.styles.keys()].slice(0, 5).join(', ') : '';
  return new Error(
    `${name} (${file}): none of its styles (${styles}) is of a language that can be read for it: ${Object.values(KOKORO_LANGUAGES).join(', ')}`,
  );
}

function voicesOf(pool: SessionPool, model: CheckedModel): NeuralVoice[] {
  if (!model.speech) throw new Error(`${model.name} does not speak`);
  const { runAll } = openModel(pool, model);
  const run = async (feeds: FloatTensors, signal: AbortSignal) => {
    const outputs = await runAll(feeds, signal);
    const { output, durations } = outputs as Record<'output' | 'durations', FloatTensor>;
    return { samples: output.data, frames: durations.data };
  };
  return model.speech.kind === 'piper'
    ? [piperVoice(model, model.speech, run)]
    : kokoroVoices(model, model.speech, run);
}

type Run = (
  feeds: FloatTensors,
  signal: AbortSignal,
) => Promise<{ readonly samples: Float32Array; readonly frames: Float32Array }>;

function piperVoice(
  { name, inputs }: CheckedModel,
  { file }: Extract<SpeechFiles, { kind: 'piper' }>,
  run: Run,
): NeuralVoice {
  const { noise_scale: noise, length_scale: length, noise_w: durations } = file.inference;
  const takesSpeaker = inputs.some(({ role }) => role === 'sid');
  return {
    name,
    language: (file.language?.code ?? file.espeak.voice).toLowerCase().replaceAll('_', '-'),
    espeak: file.espeak.voice,
    sounding: undefined,
    speakers: new Map(Object.entries(file.speaker_id_map)),
    sampleRate: file.audio.sample_rate,
    phonemeIds: new Map(Object.entries(file.phoneme_id_map)),
    run: (phonemes, speaker, signal) =>
      run(
        {
          input: tensor([1, phonemes.length], phonemes),
          input_lengths: tensor([1], [phonemes.length]),
          scales: tensor([3], [noise, length, durations]),
          ...(takesSpeaker && { sid: tensor([1], [speaker]) }),
        },
        signal,
      ),
  };
}

/** Returns a voice for each style whose language espeak-ng can read as Kokoro was trained on it. */
function kokoroVoices(
  { name }: CheckedModel,
  { vocabulary, styles }: Extract<SpeechFiles, { kind: 'kokoro' }>,
  run: Run,
): NeuralVoice[] {
  const around: [string, readonly number[]][] = [START, STOP].map((sign) => [sign, [0]]);
  const phonemeIds = new Map([
    ...around,
    ...Object.entries(vocabulary).map(([sign, id]): [string, readonly number[]] => [sign, [id]]),
  ]);
  return [...styles].flatMap(([style, numbers]) => {
    const espeak = KOKORO_LANGUAGES[style[0] ?? ''];
    if (espeak === undefined) return [];
    return [
      {
        name: `${name}/${style}`,
        language: espeak,
        espeak,
        sounding: ({ f: 'woman', m: 'man' } as const)[style[1] ?? ''],
        speakers: new Map(),
        sampleRate: KOKORO_RATE,
        phonemeIds,
        longest: KOKORO_MOST,
        composed: true,
        run: async (phonemes, _speaker, signal) => {
          // The style of a sentence with n phonemes is the one before n, as in Kokoro's pipeline.py.
          const row = Math.max(0, Math.min(numbers.length / STYLE, phonemes.length - 2) - 1);
          const said = await run(
            {
              tokens: tensor([1, phonemes.length], phonemes),
              style: tensor([1, STYLE], numbers.subarray(row * STYLE, (row + 1) * STYLE)),
              speed: tensor([1], [1]),
            },
            signal,
          );
          return { ...said, frames: earlier(said.frames) };
        },
      } satisfies NeuralVoice,
    ];
  });
}

/** Moves frames from the silence before a sentence to the silence after it. */
function earlier(frames: Float32Array): Float32Array {
  const [first = 0] = frames;
  const moved = Math.min(first, KOKORO_EARLY);
  const last = frames.length - 1;
  return frames.map((count, i) => count + (i === last ? moved : 0) - (i === 0 ? moved : 0));
}

function tensor(dims: readonly number[], values: ArrayLike<number>): FloatTensor {
  return { dims, data: Float32Array.from(values) };
}

async function soundOf(
  voice: NeuralVoice,
  tools: SpeechTools,
  signal: AbortSignal,
): Promise<NeuralVoice['sounding']> {
  const speaker = new Speaker({ tools: { ...tools, neural: [voice] }, signal, directory: tmpdir() });
  try {
    const { samples, sampleRate } = await speaker.speak({ program: 'model', name: voice.name }, TRIAL);
    const pitch = medianPitch(samples, sampleRate);
    return pitch === undefined ? undefined : pitch >= WOMAN_HZ ? 'woman' : 'man';
  } finally {
    await speaker.close();
  }
}
