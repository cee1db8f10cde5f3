import { existsSync } from 'node:fs';
import { findOnPath } from '@semblance/common/process/find-on-path';
import { hasPython } from '../engine-sidecar/python-env.ts';

/** Program that a machine may lack, by the tag of the tests that need it. */
export interface Need {
  readonly tag: string;
  /** Debian packages that contain it. */
  readonly packages: string;
  readonly found: boolean;
}

const BROWSERS = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome'];

/** Returns the Chromium that `SEMBLANCE_TEST_BROWSER` names, else one on PATH. */
export function findBrowser(): string | undefined {
  if (process.env.SEMBLANCE_TEST_BROWSER) return process.env.SEMBLANCE_TEST_BROWSER;
  return BROWSERS.map((name) => findOnPath(name)).find((path) => path !== undefined);
}

/** Returns all needs of the tests beyond `npm ci`. */
export async function testNeeds(): Promise<Need[]> {
  const programs = (...names: string[]) => names.every((name) => findOnPath(name));
  const sounds = '/usr/share/sounds/alsa';
  const prompts = '/usr/share/asterisk/sounds';
  return [
    { tag: 'ffmpeg', packages: 'ffmpeg', found: programs('ffmpeg', 'ffprobe') },
    {
      tag: 'speech',
      packages: 'flite espeak-ng python3',
      found: programs('flite', 'espeak-ng', 'python3'),
    },
    {
      tag: 'recordings',
      packages: 'alsa-utils asterisk-core-sounds-en',
      found: existsSync(sounds) && existsSync(prompts),
    },
    { tag: 'python', packages: 'python3 python3-venv', found: await hasPython() },
    {
      tag: 'browser',
      packages: 'chromium-headless-shell',
      found: findBrowser() !== undefined,
    },
  ];
}

/**
 * Returns the needs that this machine lacks. With CI set it returns none, so that tests fail instead of being
 * skipped.
 */
export async function missingNeeds(): Promise<Need[]> {
  return process.env.CI ? [] : (await testNeeds()).filter(({ found }) => !found);
}
