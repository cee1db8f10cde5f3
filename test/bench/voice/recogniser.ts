import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { resample } from '@semblance/speech/resample';
import { pythonWith } from '@semblance/testkit/stack/python-venv';
import { RATE } from '@semblance/testkit/voice/sounds';
import type { Recording } from '../lib/recorded-speech.ts';

/**
 * Recogniser of English whose wheel contains its network, Moonshine Tiny (Jeffries and others, "Moonshine: speech
 * recognition for live transcription and voice commands", 2024). Later wheels download theirs.
 */
const PACKAGE = 'moonshine-voice==0.0.49';
/** A man's reading of the beginning of "A Tale of Two Cities" (Dickens, 1859), which the wheel also contains. */
const READING = [
  'It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness,',
  'it was the epoch of belief, it was the epoch of incredulity, it was the season of light, it was the season of',
  'darkness, it was the spring of hope, it was the winter of despair, we had everything before us, we had nothing',
  'before us, we were all going direct to heaven, we were all going direct the other way - in short, the period was',
  'so far like the present period, that some of its noisiest authorities insisted on its being received, for good',
  'or for evil, in the superlative degree of comparison only.',
].join(' ');
const PROGRAM = join(import.meta.dirname, 'recognise.py');
/** Sample rate of the recogniser, in Hz. */
const HEARD_RATE = 16_000;

/** Returns the recording that comes with the recogniser. */
export async function readingOfRecogniser(): Promise<Recording> {
  const print = 'from moonshine_voice import get_assets_path; print(get_assets_path())';
  const { stdout } = await promisify(execFile)(await pythonWith([PACKAGE]), ['-c', print]);
  return { path: join(stdout.trim(), 'two_cities.wav'), text: READING };
}

/** Returns what is said in each sound, at {@link RATE}. The first call installs the recogniser. */
export async function recognised(sounds: readonly Int16Array[]): Promise<string[]> {
  const python = await pythonWith([PACKAGE]);
  const directory = await mkdtemp(join(tmpdir(), 'semblance-words-'));
  try {
    const files = sounds.map((_, i) => join(directory, `${i}.raw`));
    for (const [i, file] of files.entries()) {
      const { buffer, byteOffset, byteLength } = resample(sounds[i] as Int16Array, RATE, HEARD_RATE);
      await writeFile(file, new Uint8Array(buffer, byteOffset, byteLength));
    }
    const { stdout } = await promisify(execFile)(python, [PROGRAM, ...files], { maxBuffer: 1 << 26 });
    const texts = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as string);
    if (texts.length !== sounds.length) throw new Error(`${texts.length} texts of ${sounds.length} sounds`);
    return texts;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
