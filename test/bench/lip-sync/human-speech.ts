import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { SAMPLE_RATE } from '@semblance/engine-builtin/internal/lip-sync/audio/log-mel';
import { alignPhones } from '../../../tools/train-mouth/align.ts';
import { type Figures, measure } from '../../../tools/train-mouth/measure.ts';
import { speak, type Utterance } from '../../../tools/train-mouth/speech.ts';

const ALSA = '/usr/share/sounds/alsa';
const ASTERISK = '/usr/share/asterisk/sounds/en';
const TEXTS = '/usr/share/doc/asterisk-core-sounds-en/core-sounds-en.txt.gz';

/** Texts of recordings in Debian's alsa-utils: a woman, 48 kHz. */
const ALSA_TEXTS: Readonly<Record<string, string>> = {
  Front_Center: 'Front center.',
  Front_Left: 'Front left.',
  Front_Right: 'Front right.',
  Rear_Center: 'Rear center.',
  Rear_Left: 'Rear left.',
  Rear_Right: 'Rear right.',
  Side_Left: 'Side left.',
  Side_Right: 'Side right.',
};

/**
 * Prompts of asterisk-core-sounds-en: another woman, over a telephone. They have many closed lips and open vowels.
 */
const PROMPTS = [
  ...[
    'agent-newlocation',
    'agent-pass',
    'all-circuits-busy-now',
    'call-fwd-on-busy',
    'cannot-complete-as-dialed',
  ],
  ...['check-number-dial-again', 'conf-adminmenu', 'conf-onlyperson', 'conf-unmuted', 'demo-abouttotry'],
  ...['demo-congrats', 'demo-moreinfo', 'demo-nogo', 'demo-thanks', 'dir-instr', 'dir-nomatch', 'im-sorry'],
  ...['invalid', 'pbx-invalid', 'pls-try-call-later', 'privacy-prompt', 'queue-thankyou', 'ss-noservice'],
  ...['tt-allbusy', 'tt-monkeysintro', 'tt-weasels', 'vm-goodbye', 'vm-helpexit', 'vm-incorrect', 'vm-intro'],
  ...[
    'vm-mailboxfull',
    'vm-options',
    'vm-password',
    'vm-record-prepend',
    'vm-reenterpassword',
    'you-entered',
  ],
];

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
  const sources: { name: string; files: { path: string; text: string }[] }[] = [];
  if (existsSync(ALSA)) {
    const files = Object.entries(ALSA_TEXTS).map(([name, text]) => ({
      path: join(ALSA, `${name}.wav`),
      text,
    }));
    sources.push({ name: 'alsa-utils', files });
  }
  if (existsSync(ASTERISK) && existsSync(TEXTS))
    sources.push({ name: 'asterisk-core-sounds-en', files: await prompts() });
  const out: HumanSpeech[] = [];
  for (const { name, files } of sources) {
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

async function prompts(): Promise<{ path: string; text: string }[]> {
  const lines = (await promisify(gunzip)(await readFile(TEXTS))).toString('utf8').split('\n');
  const texts = new Map(
    lines.flatMap((line) => {
      const at = line.indexOf(': ');
      return at > 0 && !line.startsWith(';') ? [[line.slice(0, at), line.slice(at + 2)] as const] : [];
    }),
  );
  return PROMPTS.flatMap((name) => {
    const text = texts.get(name);
    const path = join(ASTERISK, `${name}.gsm`);
    return text && !text.includes('[') && text.length < 160 && existsSync(path) ? [{ path, text }] : [];
  });
}

/** Decodes a recording of these packages. The media layer accepts no GSM, but these packages are trusted. */
async function wholeSound(path: string): Promise<Float32Array> {
  const args = ['-v', 'error', '-i', path, '-ac', '1', '-ar', String(SAMPLE_RATE), '-f', 'f32le', '-'];
  const { stdout } = await promisify(execFile)('ffmpeg', args, { encoding: 'buffer', maxBuffer: 1 << 28 });
  return Float32Array.from({ length: stdout.length >> 2 }, (_, i) => stdout.readFloatLE(i * 4));
}
