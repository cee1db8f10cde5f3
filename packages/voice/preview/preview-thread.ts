import { parentPort, workerData } from 'node:worker_threads';
import type { Voice } from '@semblance/common/voices/voice';
import { previewSound, type Speech } from './preview-sound.ts';

/** Holds what the thread is given; it answers with samples and ends. */
export interface PreviewWork {
  readonly speech: Speech;
  readonly voice: Voice;
}

/** Entry of a thread that makes one preview: a tenth of a second in which this process could carry no other sound. */
const { speech, voice } = workerData as PreviewWork;
const sound = previewSound(speech, voice);
parentPort?.postMessage(sound, [sound.buffer as ArrayBuffer]);
