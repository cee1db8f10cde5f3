import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { resample } from '@semblance/speech/resample';
import { pythonWith } from '@semblance/testkit/stack/python-venv';
import { RATE } from '@semblance/testkit/voice/sounds';

/**
 * Recogniser of English whose wheel contains its network, Moonshine Tiny (Jeffries and others, "Moonshine: speech
 * recognition for live transcription and voice commands", 2024). Later wheels download theirs.
 */
const PACKAGE = 'moonshine-voice==0.0.49';
const PROGRAM = join(import.meta.dirname, 'recognise.py');
/** Sample rate of the recogniser, in Hz. */
const HEARD_RATE = 16_000;

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
