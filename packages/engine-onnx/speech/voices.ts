import { tmpdir } from 'node:os';
import { medianPitch } from '@semblance/speech/pitch';
import { Speaker } from '@semblance/speech/speaker';
import type { NeuralVoice, SpeechTools } from '@semblance/speech/speech-tools';
import type { CheckedModel } from '../model-dir.ts';
import type { FloatTensor } from '../sessions/protocol.ts';
import type { SessionPool } from '../sessions/session-pool.ts';
import { openModel } from '../stages/models.ts';

/**
 * Median pitch from which a voice sounds like a woman's, in Hz: between the means of men and women in read speech,
 * about 120 and 200 (Baken and Orlikoff, "Clinical Measurement of Speech and Voice", 2000).
 */
const WOMAN_HZ = 160;
/** A text that is read in every language, and long enough to hear the pitch. */
const TRIAL = '1, 2, 3, 4, 5, 6, 7, 8, 9.';

/**
 * Opens the voices of a model directory. Each speaks once, which tells whether it works and what it sounds like.
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
    const voice = neuralVoice(pool, model);
    if (!tools.espeak?.voices.has(voice.espeak))
      throw new Error(`${model.name} (${model.file}): this espeak-ng has no voice ${voice.espeak}`);
    voices.push({ ...voice, sounding: await soundOf(voice, tools, signal) });
  }
  return voices;
}

function neuralVoice(pool: SessionPool, model: CheckedModel): NeuralVoice {
  const { name, speech } = model;
  if (!speech) throw new Error(`${name} does not speak`);
  const { noise_scale: noise, length_scale: length, noise_w: durations } = speech.inference;
  const open = openModel(pool, model);
  const takesSpeaker = model.inputs.some(({ role }) => role === 'sid');
  return {
    name,
    language: (speech.language?.code ?? speech.espeak.voice).toLowerCase().replaceAll('_', '-'),
    espeak: speech.espeak.voice,
    sounding: undefined,
    speakers: new Map(Object.entries(speech.speaker_id_map)),
    sampleRate: speech.audio.sample_rate,
    phonemeIds: new Map(Object.entries(speech.phoneme_id_map)),
    async run(phonemes, speaker, signal) {
      const outputs = await open.runAll(
        {
          input: tensor([1, phonemes.length], phonemes),
          input_lengths: tensor([1], [phonemes.length]),
          scales: tensor([3], [noise, length, durations]),
          ...(takesSpeaker && { sid: tensor([1], [speaker]) }),
        },
        signal,
      );
      const { output, durations: frames } = outputs as Record<'output' | 'durations', FloatTensor>;
      return { samples: output.data, frames: frames.data };
    },
  };
}

function tensor(dims: readonly number[], values: readonly number[]): FloatTensor {
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
