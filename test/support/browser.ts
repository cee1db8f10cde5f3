import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';

const NAMES = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome'];

/** A Chromium on this machine: the one named by `SEMBLANCE_TEST_BROWSER`, else the first on PATH. */
export function findBrowser(): string | undefined {
  const named = process.env.SEMBLANCE_TEST_BROWSER;
  if (named) return named;
  const folders = (process.env.PATH ?? '').split(delimiter).filter(Boolean);
  return folders.flatMap((folder) => NAMES.map((name) => join(folder, name))).find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

export interface FakeDevices {
  /** WAV that the microphone hears, over and over. */
  readonly microphone?: string;
  /** MJPEG or Y4M that the camera sees, over and over. */
  readonly camera?: string;
}

/** Chromium whose microphone and camera are files, and which lets every page use them. */
export function launchBrowser(program: string, { microphone, camera }: FakeDevices): Promise<Browser> {
  return chromium.launch({
    executablePath: program,
    args: [
      // Its sandbox takes user namespaces, which containers seldom have; it opens nothing but our own page.
      '--no-sandbox',
      '--use-fake-device-for-media-stream',
      '--use-fake-ui-for-media-stream',
      '--autoplay-policy=no-user-gesture-required',
      ...(microphone ? [`--use-file-for-fake-audio-capture=${microphone}`] : []),
      ...(camera ? [`--use-file-for-fake-video-capture=${camera}`] : []),
    ],
  });
}
