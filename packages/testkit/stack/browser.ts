import { type Browser, chromium } from 'playwright-core';

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
