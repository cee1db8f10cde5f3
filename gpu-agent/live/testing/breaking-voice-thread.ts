import { parentPort } from 'node:worker_threads';
import type { ToVoiceThread } from '../engines/voice/voice-protocol.ts';
import { ENDS, HANGS } from './breaking-samples.ts';

/** A voice thread that ends, or hangs, when it is told to. */

// Before the thread's own listener, which is added by the import.
parentPort?.on('message', (message: ToVoiceThread) => {
  if (message.type !== 'convert') return;
  const [sample] = new Int16Array(message.samples);
  if (sample === ENDS) process.exit(7);
  while (sample === HANGS);
});

await import('../engines/voice/voice-thread.ts');
