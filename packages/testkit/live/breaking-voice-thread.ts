import { parentPort } from 'node:worker_threads';
import { SharedChunk } from '@semblance/gpu-agent/live/engines/voice/shared-chunk';
import type { ToVoiceThread } from '@semblance/gpu-agent/live/engines/voice/voice-protocol';
import { ENDS, HANGS } from './breaking-samples.ts';

/** A voice thread that ends, or hangs, when it is told to. */

const chunks = new Map<number, SharedChunk>();

// Before the thread's own listener, which is added by the import.
parentPort?.on('message', (message: ToVoiceThread) => {
  if (typeof message !== 'number') {
    if (message.type === 'open') chunks.set(message.stream, new SharedChunk(message.chunk));
    return;
  }
  const sample = chunks.get(message)?.samples[0];
  if (sample === ENDS) process.exit(7);
  while (sample === HANGS);
});

await import('@semblance/gpu-agent/live/engines/voice/voice-thread');
