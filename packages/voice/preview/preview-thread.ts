import { parentPort, workerData } from 'node:worker_threads';
import type { Voice } from '@semblance/common/voices/voice';
import { previewSound, type Speech } from './preview-sound.ts';

/** Input of the thread, which answers with samples and then ends. */
export interface PreviewWork {
  readonly speech: Speech;
  readonly voice: Voice;
}

/**
 * Entry file of a thread that makes one preview. In this process it would block other sound for a tenth of a
 * second.
 */
const { speech, voice } = workerData as PreviewWork;
const sound = previewSound(speech, voice);
parentPort?.postMessage(sound, [sound.buffer as ArrayBuffer]);
