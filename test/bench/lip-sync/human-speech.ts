import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { SAMPLE_RATE } from '@semblance/engine-builtin/internal/lip-sync/audio/log-mel';
import { alignPhones } from '../../../tools/train-mouth/align.ts';
import { type Figures, measure } from '../../../tools/train-mouth/measure.ts';
import { speak, type Utterance } from '../../../tools/train-mouth/speech.ts';
import { recordedSpeech } from '../lib/recorded-speech.ts';

/** Above this distance, the recording does not say the text, or not in its order. */
const SAME_WORDS = 1.7;

export interface HumanSpeech {
  readonly name: string;
  readonly recordings: number;
  readonly seconds: number;
  readonly figures: Figures;
  /** Figures without the gate, so that all sound counts as speech. */
  readonly ungated: Figures;
}

/**
 * Returns figures on recorded people. Their sounds are located by alignment with synthetic speech of the same text.
 */
export async function humanSpeech(): Promise<HumanSpeech[]> {
  const out: HumanSpeech[] = [];
  for (const [name, files] of await recordedSpeech()) {
    const spoken = await speak(
      { program: 'flite', name: 'slt' },
      files.map(({ text }) => text),
    );
    const aligned: Utterance[] = [];
    for (const [i, { path }] of files.entries()) {
      const samples = await wholeSound(path);
      const { phones, distance } = alignPhones(spoken[i] as Utterance, samples);
      if (distance < SAME_WORDS) aligned.push({ samples, phones });
    }
    if (!aligned.length) continue;
    const seconds = aligned.reduce((sum, { samples }) => sum + samples.length / SAMPLE_RATE, 0);
    const [figures, ungated] = [await measure(aligned), await measure(aligned, { gated: false })];
    out.push({ name, recordings: aligned.length, seconds, figures, ungated });
  }
  return out;
}

/** Decodes a recording of these packages. The media layer accepts no GSM, but these packages are trusted. */
async function wholeSound(path: string): Promise<Float32Array> {
  const args = ['-v', 'error', '-i', path, '-ac', '1', '-ar', String(SAMPLE_RATE), '-f', 'f32le', '-'];
  const { stdout } = await promisify(execFile)('ffmpeg', args, { encoding: 'buffer', maxBuffer: 1 << 28 });
  return Float32Array.from({ length: stdout.length >> 2 }, (_, i) => stdout.readFloatLE(i * 4));
}
