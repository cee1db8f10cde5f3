import { type Browser, chromium } from 'playwright-core';

export interface FakeDevices {
  /** WAV file that the microphone repeats. */
  readonly microphone?: string;
  /** MJPEG or Y4M file that the camera repeats. */
  readonly camera?: string;
}

/** Starts Chromium with files as microphone and camera, which every page may use. */
export function launchBrowser(program: string, { microphone, camera }: FakeDevices): Promise<Browser> {
  return chromium.launch({
    executablePath: program,
    args: [
      // The sandbox needs user namespaces, which containers seldom have. The browser opens only our own page.
      '--no-sandbox',
      '--use-fake-device-for-media-stream',
      '--use-fake-ui-for-media-stream',
      '--autoplay-policy=no-user-gesture-required',
      ...(microphone ? [`--use-file-for-fake-audio-capture=${microphone}`] : []),
      ...(camera ? [`--use-file-for-fake-video-capture=${camera}`] : []),
    ],
  });
}
