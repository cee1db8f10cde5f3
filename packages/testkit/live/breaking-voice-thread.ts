import { parentPort } from 'node:worker_threads';
import { SharedChunk } from '@semblance/gpu-agent/live/engines/voice/shared-chunk';
import type { ToVoiceThread } from '@semblance/gpu-agent/live/engines/voice/voice-protocol';
import { ENDS, HANGS } from './breaking-samples.ts';

/** Voice thread that ends, or hangs, on command. */

const chunks = new Map<number, SharedChunk>();

// This listener must come before the thread's own, which the import adds.
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
