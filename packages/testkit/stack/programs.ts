import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { findOnPath } from '@semblance/common/process/find-on-path';
import { findIsolation, PROBE_MS } from '@semblance/media/isolation';
import { findMediaTools } from '@semblance/media/tools';
import { findSpeechTools } from '@semblance/speech/tools';
import { hasPython } from '../engine-sidecar/python-env.ts';

/** Program that a machine may lack, by the tag of the tests that need it. */
export interface Need {
  readonly tag: string;
  /** Debian packages that contain it. */
  readonly packages: string;
  /** Why the tests are left out; undefined when the programs are there and serve. */
  readonly lack: string | undefined;
}

const BROWSERS = [
  'chromium-headless-shell',
  'chromium',
  'chromium-browser',
  'google-chrome',
  'google-chrome-stable',
];

/** Returns the Chromium that `SEMBLANCE_TEST_BROWSER` names, else one on PATH. */
export function findBrowser(): string | undefined {
  if (process.env.SEMBLANCE_TEST_BROWSER) return process.env.SEMBLANCE_TEST_BROWSER;
  return BROWSERS.map((name) => findOnPath(name)).find((path) => path !== undefined);
}

/**
 * Returns all needs of the tests beyond `npm ci`. A program that is there and does not serve, such as an ffmpeg too
 * old for the engine, is a lack too. With CI set nothing is looked for, so that tests fail instead of being left
 * out.
 */
export async function testNeeds(): Promise<Need[]> {
  const needs: readonly [string, string, () => Promise<string | undefined>][] = [
    ['ffmpeg', 'ffmpeg', lackOfMedia],
    ['speech', 'flite espeak-ng python3', lackOfSpeech],
    ['recordings', 'alsa-utils asterisk-core-sounds-en', async () => lackOfFolders()],
    ['python', 'python3 python3-venv', lackOfPython],
    ['walls', 'gcc libc6-dev python3', lackOfWalls],
    ['go', 'golang', async () => lackOfPrograms('go')],
    ['browser', 'chromium-headless-shell', lackOfBrowser],
  ];
  return Promise.all(
    needs.map(async ([tag, packages, look]) => ({
      tag,
      packages,
      lack: process.env.CI ? undefined : await look(),
    })),
  );
}

function lackOfPrograms(...names: string[]): string | undefined {
  const absent = names.filter((name) => !findOnPath(name));
  return absent.length ? `not on PATH: ${absent.join(', ')}` : undefined;
}

async function lackOfMedia(): Promise<string | undefined> {
  const tools = await findMediaTools();
  return tools.available ? undefined : tools.reason;
}

async function lackOfSpeech(): Promise<string | undefined> {
  const absent = lackOfPrograms('flite', 'espeak-ng', 'python3');
  if (absent) return absent;
  const tools = await findSpeechTools();
  if (!tools.available) return tools.reason;
  if (!tools.flite) return 'flite does not run, or has none of the voices';
  return tools.espeak ? undefined : 'python3 cannot speak with espeak-ng';
}

async function lackOfWalls(): Promise<string | undefined> {
  const { missing } = await findIsolation();
  if (missing.length > 0) return missing.map(({ wall, why }) => `${wall}: ${why}`).join(', ');
  return lackOfPrograms('python3');
}

function lackOfFolders(): string | undefined {
  const absent = ['/usr/share/sounds/alsa', '/usr/share/asterisk/sounds'].filter((path) => !existsSync(path));
  return absent.length ? `there is no ${absent.join(', and no ')}` : undefined;
}

async function lackOfPython(): Promise<string | undefined> {
  return (await hasPython()) ? undefined : 'there is no python3 of 3.11 or later with venv';
}

/** Lets the browser show a page, because a packaged one may start and see no file of ours. */
async function lackOfBrowser(): Promise<string | undefined> {
  const program = findBrowser();
  if (!program) return `not on PATH: ${BROWSERS.join(', ')}`;
  const folder = await mkdtemp(join(tmpdir(), 'semblance-page-'));
  try {
    const page = join(folder, 'page.html');
    await writeFile(page, '<p>seen</p>');
    const args = ['--headless', '--no-sandbox', `--user-data-dir=${folder}`, '--dump-dom'];
    const { stdout } = await promisify(execFile)(program, [...args, pathToFileURL(page).href], {
      timeout: PROBE_MS,
    });
    return stdout.includes('<p>seen</p>') ? undefined : `${program} does not see files in ${tmpdir()}`;
  } catch (error) {
    const { killed, message } = error as Error & { killed?: boolean };
    return `${program} does not run: ${killed ? `nothing after ${PROBE_MS / 1000} s` : message.split('\n')[0]}`;
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}
