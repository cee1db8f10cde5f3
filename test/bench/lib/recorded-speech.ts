import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';

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

/** A file of recorded speech with its words. */
export interface Recording {
  readonly path: string;
  readonly text: string;
}

/** Returns the recordings of people on this machine, by the Debian package that brings them. */
export async function recordedSpeech(): Promise<ReadonlyMap<string, readonly Recording[]>> {
  const sources = new Map<string, readonly Recording[]>();
  if (existsSync(ALSA)) {
    const files = Object.entries(ALSA_TEXTS);
    sources.set(
      'alsa-utils',
      files.map(([name, text]) => ({ path: join(ALSA, `${name}.wav`), text })),
    );
  }
  if (existsSync(ASTERISK) && existsSync(TEXTS)) sources.set('asterisk-core-sounds-en', await prompts());
  return sources;
}

async function prompts(): Promise<Recording[]> {
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
